"""How well a GraphLLM plans and answers (RAS §4, App. E.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from accelerate import Accelerator

from evaluation.answers import exact_match, token_f1
from evaluation.component_scores import score_labels
from models.formats.planning import Plan, PlanAction, parse_plan
from models.formats.records import RasSample
from models.graph_llm import GraphLLM
from models.parts.graph import EncodedGraphs, collate_graphs
from models.processors.ras import RasProcessor
from training.recipe.samples import TrainingSample
from training.run.validation import generate_texts, pad_left
from training.saving.sharding import is_sharded


@dataclass(frozen=True)
class EncodedRecord:
    """A record beside its encoded form, whose prompt part is generated from."""

    record: RasSample
    sample: TrainingSample

    @property
    def prompt_ids(self) -> list[int]:
        """Ids before the label."""
        return list(self.sample.input_ids[: self.sample.labels_start].tolist())


def generate_labels(
    module: GraphLLM,
    processor: RasProcessor,
    chosen: Sequence[EncodedRecord],
    graph_features: npt.NDArray[np.floating] | None,
    batch_size: int,
    accelerator: Accelerator,
) -> list[str]:
    """Greedy plan or answer for each sample, in the samples' order."""
    prompts = [item.prompt_ids for item in chosen]
    tokenizer = processor.tokenizer

    def generate(indices: list[int]) -> list[str]:
        input_ids, mask = pad_left([prompts[i] for i in indices], int(tokenizer.pad_token_id))
        graph = None
        if graph_features is not None:
            graphs: list[EncodedGraphs] = [
                g for i in indices if (g := chosen[i].sample.graphs) is not None
            ]
            graph = collate_graphs(graphs, graph_features).to(accelerator.device)
        output = module.generate(
            input_ids.to(accelerator.device),
            mask.to(accelerator.device),
            graph,
            max_new_tokens=processor.max_output_tokens,
            do_sample=False,
            synced_gpus=is_sharded(module),
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        decoded = tokenizer.batch_decode(output.tolist(), skip_special_tokens=True)
        return [str(text).strip() for text in decoded]

    lengths = [len(prompt) for prompt in prompts]
    return generate_texts(module, lengths, generate, batch_size, accelerator)


def score_ras(outputs: Sequence[str], records: Sequence[RasSample]) -> dict[str, float]:
    """Plans: label accuracy, macro-F1, token F1 of sub-queries; answers: EM and token F1.

    A plan that cannot be read is wrong. Sub-query F1 is taken where the gold label asks for one;
    another action there scores 0.
    """
    pairs = list(zip(outputs, records, strict=True))
    figures: dict[str, float] = {}
    plans = [(text, record) for text, record in pairs if record.task == "plan"]
    answers = [(text, record) for text, record in pairs if record.task == "answer"]
    if plans:
        figures.update(_score_plans(plans))
    if answers:
        figures["answer_em"] = _mean([exact_match(t, [r.label]) for t, r in answers])
        figures["answer_f1"] = _mean([token_f1(t, [r.label]) for t, r in answers])
        figures["answers"] = float(len(answers))
    return figures


def _score_plans(plans: Sequence[tuple[str, RasSample]]) -> dict[str, float]:
    predicted = [parse_plan(text).plan for text, _ in plans]
    gold = [_gold_plan(record) for _, record in plans]
    labels = score_labels(
        [p.action.value if p else None for p in predicted], [g.action for g in gold]
    )
    figures = {"plan_accuracy": labels.accuracy, "plan_macro_f1": labels.macro_f1}
    figures["malformed_plans"] = float(sum(plan is None for plan in predicted))
    subqueries = [
        token_f1(p.subquery, [g.subquery]) if p and p.action is PlanAction.SUBQ else 0.0
        for p, g in zip(predicted, gold, strict=True)
        if g.action is PlanAction.SUBQ
    ]
    if subqueries:
        figures["subquery_f1"] = _mean(subqueries)
    figures["plans"] = float(len(plans))
    return figures


def _gold_plan(record: RasSample) -> Plan:
    plan = parse_plan(record.label).plan
    if plan is None:
        raise ValueError(
            f"sample {record.id}: its label {record.label!r} is no plan. "
            "Write '[SUBQ] text', '[SUFFICIENT]' or '[NO_RETRIEVAL]'"
        )
    return plan


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
