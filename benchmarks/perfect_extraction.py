#!/usr/bin/env python3
"""Measure what extraction, retrieval and planning each cost, by a RAS loop with one made perfect.

python benchmarks/perfect_extraction.py --dataset DEV.jsonl --corpus CORPUS.jsonl \\
    --question-documents [--perfect extraction extraction+planning] [options of evaluate.py]

extraction: the annotated facts of a passage stand before what was extracted of it. retrieval: the
question's supporting passages stand before what was found, whatever was asked. planning: the
annotated steps are asked for one by one, and then the answer. Everything else stays as it is.
Without --perfect: the loop as it is, each of the three, and all of them.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.commands import command_parser
from common.tables import emit_json, print_table
from data_gen.facts.solving_steps import SolvingStep, solving_steps
from evaluation.significance import bootstrap_interval, paired_bootstrap
from inference.indexes.extraction import Payer
from inference.indexes.focused import Extractor, joined
from inference.loops.model import GraphReader
from inference.loops.ras import RasLoop
from inference.loops.trace import Trace
from inference.opening.arguments import command, positive_int
from inference.opening.loop import open_loop
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.retrieval.passages import (
    Hit,
    Passage,
    Retriever,
    documents_of_questions,
    load_corpus,
)
from inference.runs.evaluation import read_questions, run_questions
from inference.runs.scores import GoldPassages, scored_trace
from models.formats.passages import passage_key
from models.formats.planning import History, Plan, PlanAction
from models.formats.records import QuestionRecord
from models.formats.triples import Triple

STAGES = ("extraction", "retrieval", "planning")
ALL = "+".join(STAGES)


class AnnotatedExtractor:
    """Puts the annotated facts of passages before what an extractor finds."""

    def __init__(self, extractor: Extractor, facts: Mapping[str, list[Triple]]) -> None:
        """facts: by `passage_key`."""
        self.extractor = extractor
        self.facts = facts

    async def extract(
        self,
        passages: Sequence[Passage],
        payer: Payer | None = None,
        subquery: str = "",
        whole: bool = False,
    ) -> list[list[Triple]]:
        """Return the triples of each passage, the annotated ones first."""
        found = await self.extractor.extract(passages, payer, subquery, whole)
        known = [self.facts.get(passage_key(passage), []) for passage in passages]
        return joined(known, found)

    def cut(self, passages: Sequence[Passage], subquery: str, whole: bool = False) -> list[Passage]:
        """Return the passages that the extractor reads in part."""
        return self.extractor.cut(passages, subquery, whole)

    def close(self) -> None:
        """Close the extractor."""
        self.extractor.close()

    def forget(self) -> None:
        """Empty the extractor's cache."""
        self.extractor.forget()


class SupportingRetriever:
    """Finds a question's supporting passages whatever is asked, then what a retriever finds."""

    def __init__(self, retriever: Retriever, supporting: Sequence[Passage]) -> None:
        self.retriever = retriever
        self.supporting = [Hit(passage, 1.0) for passage in supporting]

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return the supporting passages first, at least all of them."""
        own = {hit.passage.id for hit in self.supporting}
        count = max(top_k, len(own))
        return [
            [*self.supporting, *(hit for hit in hits if hit.passage.id not in own)][:count]
            for hits in self.retriever.search(queries, top_k)
        ]


class AnnotatedPlanner(GraphReader):
    """Asks for the annotated steps one by one; answers as the reader that it wraps."""

    def __init__(self, reader: GraphReader, steps: Sequence[SolvingStep]) -> None:
        super().__init__(reader.engine, reader.make_input, reader.max_answer_tokens)
        self.steps = steps

    async def plans(self, history: History, trace: Trace) -> list[Plan]:
        """Return the next step's subquery, the first one after the question itself."""
        asked = {step.subquery for step in history.steps}
        left = [step.subquery for step in self.steps if step.subquery not in asked]
        if history.steps and not left:
            return [Plan(PlanAction.SUFFICIENT)]
        return [Plan(PlanAction.SUBQ, left[0] if left else history.question)]


class PerfectedLoop:
    """The RAS loop, some of its stages replaced by a question's annotation."""

    def __init__(
        self,
        loop: RasLoop,
        perfect: Sequence[str],
        facts: Mapping[str, list[Triple]],
        gold: GoldPassages,
        corpus: Mapping[str, Passage],
    ) -> None:
        self.loop, self.perfect = loop, perfect
        self.facts, self.gold, self.corpus = facts, gold, corpus

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Answer one question."""
        reader, retriever, extractor = self.loop.reader, self.loop.retriever, self.loop.extractor
        if "extraction" in self.perfect:
            extractor = AnnotatedExtractor(extractor, self.facts)
        if "retrieval" in self.perfect:
            supporting = [self.corpus[identifier] for identifier in self.gold.ids(record)]
            retriever = SupportingRetriever(retriever, supporting)
        if "planning" in self.perfect:
            reader = AnnotatedPlanner(reader, solving_steps(record, {}))
        loop = RasLoop(reader, retriever, extractor, self.loop.settings)
        return await loop.answer(record, trace)


def annotated_facts(records: Sequence[QuestionRecord]) -> dict[str, list[Triple]]:
    """Return the facts of all questions' steps by the passage that they stand in."""
    facts: dict[str, list[Triple]] = defaultdict(list)
    for record in records:
        for step in solving_steps(record, {}):
            if step.passage is not None and step.fact.object:
                facts[passage_key(step.passage)].append(step.fact)
    return {key: list(dict.fromkeys(own)) for key, own in facts.items()}


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return F1 over all questions and by type, for each set of stages that is made perfect."""
    records = read_questions(arguments.dataset, arguments.limit)
    corpus = load_corpus(arguments.corpus)
    if arguments.question_documents:
        corpus = documents_of_questions(corpus, arguments.dataset)
    opened = open_loop(options_from(arguments), corpus)
    if not isinstance(opened.loop, RasLoop):
        raise SystemExit(f"--loop {arguments.loop}: give ras or ras_no_planning")
    gold, facts = GoldPassages(corpus), annotated_facts(records)
    by_id = {passage.id: passage for passage in corpus}
    rows: dict[str, list[dict[str, Any]]] = {}
    try:
        for name in arguments.perfect:
            loop = PerfectedLoop(opened.loop, name.split("+"), facts, gold, by_id)
            with tqdm(total=len(records), desc=name, unit="question") as progress:
                traces = await run_questions(
                    loop, records, arguments.concurrency, lambda *_: progress.update()
                )
            pairs = zip(records, traces, strict=True)
            rows[name] = [scored_trace(record, trace, gold) for record, trace in pairs]
    finally:
        await opened.close()
    return {name: figures_of(own, rows[arguments.perfect[0]]) for name, own in rows.items()}


def figures_of(
    rows: Sequence[Mapping[str, Any]], first: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a run's F1 with its interval, by type, and paired against the first run."""
    scores = [float(row["f1"]) for row in rows]
    interval = bootstrap_interval(scores)
    by_type: dict[str, list[float]] = defaultdict(list)
    for row, score in zip(rows, scores, strict=True):
        by_type[row["type"]].append(score)
    against = paired_bootstrap([float(row["f1"]) for row in first], scores)
    return {
        "f1": interval.mean,
        "f1_ci95": [interval.low, interval.high],
        "by_type": {name: sum(own) / len(own) for name, own in by_type.items()},
        "against_first": {"difference": against.difference, "p_value": against.p_value},
        "errors": sum(bool(row.get("error")) for row in rows),
    }


def perfected(text: str) -> str:
    """Return stages joined by "+", or "none". Raises ArgumentTypeError for another one."""
    if text != "none" and not set(text.split("+")) <= set(STAGES):
        raise argparse.ArgumentTypeError(f"{text!r}: join some of {', '.join(STAGES)} by '+'")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--dataset", required=True, type=Path, help="questions with annotated steps")
    add("--corpus", required=True, type=Path, help="JSON Lines of {id, title, text}")
    add("--question-documents", action="store_true",
        help="search only the documents in the questions' contexts")  # fmt: skip
    add("--perfect", nargs="+", type=perfected, default=["none", *STAGES, ALL], metavar="STAGES",
        help="what is made perfect in a run, joined by '+' (default: none, each, all)")  # fmt: skip
    add("--limit", type=positive_int, help="only the first so many questions")
    add("--concurrency", type=positive_int, default=16, help="questions at a time (default: 16)")
    add("--json", action="store_true", help="print the figures as one JSON object")
    add_loop_arguments(parser)
    return parser


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    figures = asyncio.run(measure(arguments))
    types = list(next(iter(figures.values()))["by_type"])
    rows = [
        [name, f["f1"], *(f["by_type"][kind] for kind in types), f["against_first"]["p_value"]]
        for name, f in figures.items()
    ]
    print_table(f"F1, {arguments.dataset.name}", ["perfect", "all", *types, "p"], rows)
    if arguments.json:
        emit_json(figures)


if __name__ == "__main__":
    main()
