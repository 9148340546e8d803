"""Validation of the recipes that read one text and write about it: text-to-triples and Tri-RAG."""

from collections.abc import Callable, Sequence
from typing import Any

from accelerate import Accelerator
from torch import nn

from evaluation.component_scores import score_triples
from evaluation.conditions import score_conditions, structural_integrity, support
from evaluation.text import rouge_scores
from models.formats.conditions import parse_conditions
from models.formats.records import TriplesSample
from models.formats.triples import format_triples, parse_triples
from models.processors.passages import ConditionedPassage, PassageProcessor
from training.recipe.samples import Collator, SampleSet, SourceT, choose
from training.recipe.settings import T2TSettings
from training.run.runner import Validator
from training.run.validation import generate_about, validation_loss


def passage_validator(
    settings: T2TSettings,
    module: nn.Module,
    processor: PassageProcessor[Any],
    collate: Collator,
    dev: SampleSet[SourceT],
    text_of: Callable[[SourceT], str],
    score: Callable[[Sequence[str], Sequence[SourceT]], dict[str, float]],
) -> Validator:
    """Measures the loss of all held-out samples and scores the outputs of a few.

    text_of: what the module reads of a record. score: figures of outputs and their records.
    """
    positions = choose(len(dev), settings.validation.samples, settings.train.seed)
    chosen = [dev.records[position] for position in positions]
    batch_size = settings.validation.batch_size

    def validate(accelerator: Accelerator) -> dict[str, float]:
        figures = {"loss": validation_loss(module, dev.samples, collate, batch_size, accelerator)}
        if chosen:
            texts = list(map(text_of, chosen))
            outputs = generate_about(module, processor, texts, batch_size, accelerator)
            figures.update(score(outputs, chosen))
        return figures

    return validate


def score_t2t(outputs: Sequence[str], samples: Sequence[TriplesSample]) -> dict[str, float]:
    """Exact and subject-object precision, recall and F1 (micro), ROUGE-1/2/L, malformed triples."""
    parsed = [parse_triples(output) for output in outputs]
    scores = score_triples([p.triples for p in parsed], [s.triples for s in samples])
    rouge = rouge_scores(outputs, [[format_triples(s.triples)] for s in samples])
    figures: dict[str, Any] = {
        f"triple_{name}": value for name, value in scores.exact.as_dict().items()
    }
    figures["entity_pair_f1"] = scores.partial.f1
    figures.update({name: rouge[name] for name in ("rouge1", "rouge2", "rougeL")})
    figures["malformed_triples"] = float(sum(p.malformed for p in parsed))
    return figures


def score_tri_rag(
    outputs: Sequence[str], passages: Sequence[ConditionedPassage]
) -> dict[str, float]:
    """Structural integrity, support in the passage, and agreement with the labels (micro F1)."""
    parsed = [parse_conditions(output) for output in outputs]
    triplets = [p.triplets for p in parsed]
    scores = score_conditions(triplets, [passage.triplets for passage in passages])
    figures = {
        "structural_integrity": structural_integrity(parsed),
        "support": support(triplets, [passage.text for passage in passages]),
        "malformed": float(sum(p.malformed for p in parsed)),
        **{f"condition_{k}": v for k, v in scores.conditions.as_dict().items()},
        **{f"condition_conclusion_{k}": v for k, v in scores.whole.as_dict().items()},
    }
    if scores.conclusion_f1 is not None:
        figures["conclusion_token_f1"] = scores.conclusion_f1
    return figures
