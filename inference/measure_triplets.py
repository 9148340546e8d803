"""Quality of the condition triplets of a knowledge base (Tri-RAG §IV-D).

By rule over every document whether an output is well formed and supported; with --judge also
logical faithfulness, structural integrity and, with --questions, condition alignment, scored from 1
to 5 by a language model (Tri-RAG Table V).
"""

import argparse
import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from common.commands import command_parser
from common.tables import emit_json, print_table
from evaluation.conditions import is_supported, is_well_formed
from evaluation.significance import bootstrap_interval
from inference.engines.contract import Engine, Request, Sampling
from inference.indexes.knowledge_base.store import LOG_FILE, KnowledgeBaseError, Output, OutputLog
from inference.opening.arguments import (
    add_engine_arguments,
    command,
    configure_logging,
    engine_options_from,
    positive_int,
)
from inference.opening.engine import build_engine
from models.formats.conditions import ConditionTriplet, format_condition, parse_conditions
from models.formats.planning import one_line
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord, read_records

FAITHFULNESS = """\
You judge how well a triplet keeps to its source passage. [C] is the condition, [P] the proof and \
[R] the conclusion.
5: proof and conclusion are wholly supported by the passage. 3: partly supported. 1: not supported.
Answer with one digit from 1 to 5 and nothing else.

Passage: {passage}
Triplet: {triplet}
Score:"""
INTEGRITY = """\
You judge the structure of a triplet that was made from a passage. [C] is the condition, which \
names what the claim is about, [P] the proof, which supports it, and [R] the conclusion, which \
states it.
5: each field is there and does its own part. 3: a field is missing or does another's part. 1: no \
usable triplet.
Answer with one digit from 1 to 5 and nothing else.

Passage: {passage}
Triplet: {triplet}
Score:"""
ALIGNMENT = """\
You judge how well a triplet's condition [C] serves to find the triplet for a question.
5: the condition names exactly what the question needs. 3: it is related. 1: it has nothing to do \
with the question.
Answer with one digit from 1 to 5 and nothing else.

Passage: {passage}
Triplet: {triplet}
Question: {question}
Score:"""
# All inputs are cut alike, so that no length is preferred.
MAX_PASSAGE_CHARACTERS = 2000
MAX_TRIPLET_CHARACTERS = 800
_DIGIT = re.compile(r"(?<!\d)[1-5](?!\d)")


@dataclass(frozen=True)
class Judged:
    """Scores of one metric; `unreadable` counts replies without a digit from 1 to 5."""

    scores: list[int]
    unreadable: int

    @property
    def mean(self) -> float | None:
        """Mean over the readable scores; None without one."""
        return fmean(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over instances, as Table V gives it; None without a score."""
        return pstdev(self.scores) if self.scores else None


def faithfulness_prompt(passage: str, triplet: ConditionTriplet) -> str:
    """Return what the judge reads of a passage and a triplet made from it."""
    return FAITHFULNESS.format(**_shown(passage, triplet))


def integrity_prompt(passage: str, triplet: ConditionTriplet) -> str:
    """Return the same for the parts that condition, proof and conclusion have."""
    return INTEGRITY.format(**_shown(passage, triplet))


def alignment_prompt(passage: str, triplet: ConditionTriplet, question: str) -> str:
    """Return the same with the question that the condition should match."""
    return ALIGNMENT.format(**_shown(passage, triplet), question=one_line(question))


def _shown(passage: str, triplet: ConditionTriplet) -> dict[str, str]:
    return {
        "passage": one_line(passage)[:MAX_PASSAGE_CHARACTERS],
        "triplet": format_condition(triplet)[:MAX_TRIPLET_CHARACTERS],
    }


async def judge(engine: Engine, prompts: Sequence[str]) -> Judged:
    """Score prompts by one digit from 1 to 5, all at once and greedily (Tri-RAG §IV-D).

    Raises EngineError. A reply that holds no digit from 1 to 5 is counted, not guessed.
    """
    requests = [
        Request(
            messages=({"role": "user", "content": prompt},), sampling=Sampling(max_new_tokens=4)
        )
        for prompt in prompts
    ]
    replies = await engine.generate(requests)
    found = [_DIGIT.search(reply.text) for reply in replies]
    scores = [int(match[0]) for match in found if match]
    return Judged(scores, len(found) - len(scores))


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--kb", required=True, type=Path, help="knowledge base that build_kb.py wrote")
    add("--judge", metavar="MODEL", help="language model that scores: a backbone or an endpoint's")
    add("--questions", type=Path, help="questions with supporting facts, for condition alignment")
    add("--sample", type=positive_int, default=200, help="triplets that are judged (default: 200)")
    add("--seed", type=int, default=0, help="of the sample (default: 0)")
    add("--json", action="store_true", help="print the figures as one JSON object")
    add_engine_arguments(parser)
    return parser


def rule_figures(outputs: Sequence[Output]) -> dict[str, Any]:
    """Return the share of well-formed outputs and of supported triplets, with 95 % intervals."""
    parsed = [parse_conditions(output.output) for output in outputs]
    well_formed = [float(is_well_formed(p)) for p in parsed]
    supported = [
        float(is_supported(triplet, passage_text(output.title, output.text)))
        for output, p in zip(outputs, parsed, strict=True)
        for triplet in p.triplets
    ]
    figures: dict[str, Any] = {"documents": len(outputs), "triplets": len(supported)}
    for name, values in (("well_formed", well_formed), ("support", supported)):
        if values:
            interval = bootstrap_interval(values)
            figures[name] = interval.mean
            figures[f"{name}_ci95"] = [interval.low, interval.high]
    return figures


def questions_of(records: Sequence[QuestionRecord]) -> dict[str, str]:
    """Return a question for each supporting title: the first that needs it."""
    found: dict[str, str] = {}
    for record in records:
        for title, _ in record.supporting_facts:
            found.setdefault(title, record.question)
    return found


async def judge_figures(
    engine: Engine, outputs: Sequence[Output], questions: dict[str, str], sample: int, seed: int
) -> dict[str, Any]:
    """Return the scores of sampled triplets; alignment is of those that a question needs."""
    units: list[tuple[Output, ConditionTriplet]] = [
        (output, triplet)
        for output in outputs
        for triplet in parse_conditions(output.output).triplets
    ]
    rng = random.Random(seed)
    chosen = rng.sample(units, min(sample, len(units)))
    asked = [unit for unit in units if unit[0].title in questions]
    asked = rng.sample(asked, min(sample, len(asked)))
    shown = [(passage_text(output.title, output.text), triplet) for output, triplet in chosen]
    faithful = await judge(engine, [faithfulness_prompt(*each) for each in shown])
    integral = await judge(engine, [integrity_prompt(*each) for each in shown])
    aligned = await judge(
        engine,
        [alignment_prompt(passage_text(o.title, o.text), t, questions[o.title]) for o, t in asked],
    )
    return {
        **_scores("faithfulness", faithful),
        **_scores("structural_integrity", integral),
        **_scores("condition_alignment", aligned),
    }


def _scores(name: str, judged: Judged) -> dict[str, Any]:
    return {
        f"{name}_mean": judged.mean,
        f"{name}_std": judged.deviation,
        f"{name}_scored": len(judged.scores),
        f"{name}_unreadable": judged.unreadable,
    }


async def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    outputs = list(OutputLog(arguments.kb / LOG_FILE).outputs.values())
    if not outputs:
        raise KnowledgeBaseError(
            f"{arguments.kb}: holds no extractor's output. Run inference/build_kb.py first"
        )
    figures = rule_figures(outputs)
    if arguments.judge is None:
        return figures
    records = list(read_records(arguments.questions, QuestionRecord)) if arguments.questions else []
    engine = build_engine(engine_options_from(arguments), backbone=arguments.judge)
    try:
        judged = await judge_figures(
            engine, outputs, questions_of(records), arguments.sample, arguments.seed
        )
    finally:
        await engine.close()
    return {**figures, "judge": arguments.judge, **judged}


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    figures = asyncio.run(_run(arguments))
    print_table(
        f"Triplets of {arguments.kb}", ["figure", "value"], list(map(list, figures.items()))
    )
    if arguments.json:
        emit_json(figures)


if __name__ == "__main__":
    main()
