"""Quality of the condition triplets of a knowledge base (Tri-RAG §IV-D).

By rule over every document whether an output is well formed and supported; with --judge also
logical faithfulness, structural integrity and, with --questions, condition alignment, scored from 1
to 5 by a language model (Tri-RAG Table V). A judge that gives what --control spoils as much as the
triplets themselves cannot tell them apart.
"""

import asyncio
import random
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.commands import command_parser
from common.tables import emit_json, print_table
from evaluation.conditions import is_supported, is_well_formed
from evaluation.significance import bootstrap_interval
from inference.engines.contract import Engine
from inference.indexes.knowledge_base.judge import (
    Case,
    Judged,
    alignment_prompt,
    faithfulness_prompt,
    integrity_prompt,
    judge,
    of_other_passages,
    with_fields_exchanged,
)
from inference.indexes.knowledge_base.store import LOG_FILE, KnowledgeBaseError, Output, OutputLog
from inference.opening.arguments import (
    add_engine_arguments,
    command,
    configure_logging,
    engine_options_from,
    positive_int,
)
from inference.opening.engine import build_engine
from models.formats.conditions import parse_conditions
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord, read_records


def _parser() -> ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--kb", required=True, type=Path, help="knowledge base that build_kb.py wrote")
    add("--judge", metavar="MODEL", help="language model that scores: a backbone or an endpoint's")
    control = (
        "judge triplets of other passages and with exchanged fields too, which should score low"
    )
    add("--control", action="store_true", help=control)
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
    engine: Engine, outputs: Sequence[Output], questions: dict[str, str], arguments: Namespace
) -> dict[str, Any]:
    """Return the scores of sampled triplets; alignment is of those that a question needs."""
    cases = [
        Case(passage_text(each.title, each.text), triplet, questions.get(each.title, ""))
        for each in outputs
        for triplet in parse_conditions(each.output).triplets
    ]
    rng = random.Random(arguments.seed)
    chosen = rng.sample(cases, min(arguments.sample, len(cases)))
    asked = [case for case in cases if case.question]
    asked = rng.sample(asked, min(arguments.sample, len(asked)))
    judged = {
        "faithfulness": [faithfulness_prompt(case) for case in chosen],
        "structural_integrity": [integrity_prompt(case) for case in chosen],
        "condition_alignment": [alignment_prompt(case) for case in asked],
    }
    if arguments.control:
        spoiled, others = of_other_passages(chosen), of_other_passages(asked)
        judged["faithfulness_control"] = [faithfulness_prompt(case) for case in spoiled]
        judged["structural_integrity_control"] = [
            integrity_prompt(case) for case in with_fields_exchanged(chosen)
        ]
        judged["condition_alignment_control"] = [alignment_prompt(case) for case in others]
    scored = await asyncio.gather(*(judge(engine, prompts) for prompts in judged.values()))
    figures: dict[str, Any] = {}
    for name, scores in zip(judged, scored, strict=True):
        figures |= _scores(name, scores)
    return figures


def _scores(name: str, judged: Judged) -> dict[str, Any]:
    return {
        f"{name}_mean": judged.mean,
        f"{name}_std": judged.deviation,
        f"{name}_scored": len(judged.scores),
        f"{name}_unreadable": judged.unreadable,
    }


async def _run(arguments: Namespace) -> dict[str, Any]:
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
        judged = await judge_figures(engine, outputs, questions_of(records), arguments)
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
