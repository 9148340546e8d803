#!/usr/bin/env python3
"""Measure how well a passage is read for a question, by the reader and by all-facts extraction.

python benchmarks/reading.py --reading DATA/reading/test.jsonl \\
    --questions 2WikiMultihopQA=DEV.jsonl MuSiQue=DEV.jsonl [--span-reader DIR] [--reader DIR] \\
    [--t2t DIR]

Reading: token F1 where the passage answers, and the share refused where it does not, over spans.
Hops: token F1 of each annotated step, asked of its own passage, by relation. With --t2t the same
for the triple of the text-to-triples model that `select_triples` puts nearest to the subquery.
With --thresholds, what a least log-probability of an answer, or a least margin of the extractive
reader's, would give.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from tqdm import tqdm

from common.commands import command_parser, name_and_path
from common.tables import emit_json, print_table
from data_gen.facts.solving_steps import solving_steps
from data_gen.samples.reading import passage_samples
from evaluation.answers import token_f1
from evaluation.significance import bootstrap_interval
from inference.engines.contract import (
    DEFAULT_CHECKPOINTS,
    DEFAULT_SPAN_READER,
    READER_ADAPTER,
    T2T_ADAPTER,
)
from inference.indexes.extraction import TripleExtractor, chunks
from inference.indexes.focused import FocusedExtractor
from inference.indexes.spans import SpanService
from inference.opening.arguments import (
    add_engine_arguments,
    command,
    engine_options_from,
    whole_number,
)
from inference.opening.components import Component, open_helper
from inference.opening.engine import build_engine
from inference.opening.extractors import open_extractor, open_focused_extractor
from inference.opening.loop_options import checkpoint_or_none
from inference.retrieval.passages import Passage
from models.facts.triple_selection import select_triples
from models.formats.prompts import passage_text
from models.formats.reading import ReadingRecord
from models.formats.records import QuestionRecord, read_records
from models.formats.triples import Triple

BATCH = 256
MEMORY = Path(":memory:")
LOGPROBS = (-8.0, -4.0, -3.0, -2.0, -1.5, -1.0, -0.7, -0.5, -0.3, -0.2)
MARGINS = (-6.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0)


@dataclass(frozen=True)
class Asked:
    """One question to one passage; no golds where it does not tell. kind: its set or relation."""

    group: str
    kind: str
    question: str
    passage: Passage
    golds: tuple[str, ...]


@dataclass(frozen=True)
class Read:
    """What was read: the first answer, "" for none, and how sure the reader is of it.

    confidence: the log-probability of its tokens, or the margin of a span.
    """

    answer: str
    confidence: float = 0.0


def reading_asked(path: Path, limit: int, seed: int, skip: int = 0) -> list[Asked]:
    """Return the file's records whose answer is a span or nothing, at most `limit` by chance.

    skip: how many that chance puts first are left out, so that settings can be chosen on others
    than those that a test is made of.
    """
    records = [r for r in read_records(path, ReadingRecord) if list(passage_samples(r))]
    random.Random(seed).shuffle(records)
    return [
        Asked("reading", r.source, r.question, Passage(r.id, r.title, r.passage), tuple(r.answers))
        for r in records[skip : skip + limit]
    ]


def hops_asked(name: str, path: Path) -> list[Asked]:
    """Return the annotated steps of a file's questions whose passage is known."""
    asked = []
    for record in read_records(path, QuestionRecord, lambda error: None):
        for step in solving_steps(record, {}):
            answer = step.answer or step.fact.object
            if step.passage is not None and answer:
                kind = step.fact.predicate if record.evidences else record.type
                asked.append(Asked(name, kind, step.subquery, step.passage, (answer,)))
    return asked


async def read_focused(extractor: FocusedExtractor, asked: Sequence[Asked]) -> list[Read]:
    """Return what the reader writes for each question."""
    read: list[Read] = []
    ordered = sorted(range(len(asked)), key=lambda n: len(asked[n].passage.text))
    for part in tqdm(list(chunks(ordered, BATCH)), desc="reader"):
        requests = [extractor.request(asked[n].passage, asked[n].question) for n in part]
        for number, completion in zip(part, await extractor.engine.generate(requests), strict=True):
            one = asked[number]
            triples, _ = extractor.read(completion, one.passage, one.question)
            answer = answer_of(triples, one.question)
            read.append(Read(answer, sum(completion.logprobs or ())))
    places = {number: place for place, number in enumerate(ordered)}
    return [read[places[n]] for n in range(len(asked))]


def answer_of(triples: Sequence[Triple], question: str) -> str:
    """Return the field of the first triple that the question does not name; "" without one."""
    if not triples:
        return ""
    first = triples[0]
    return first.subject if first.object.lower() in question.lower() else first.object


async def read_all_facts(extractor: TripleExtractor, asked: Sequence[Asked]) -> list[Read]:
    """Return the answer of the passage's triple that is nearest to each question."""
    read = []
    for part in tqdm(list(chunks(list(asked), BATCH)), desc="all facts"):
        found = await extractor.extract([one.passage for one in part])
        for one, triples in zip(part, found, strict=True):
            nearest = select_triples(one.question, one.question, triples, 1)
            read.append(Read(answer_of(nearest, one.question)))
    return read


def figures_of(asked: Sequence[Asked], read: Sequence[Read], by: str = "group") -> dict[str, Any]:
    """Return F1 of what has an answer, with its interval, and the share of the rest refused."""
    groups: dict[str, list[tuple[Asked, Read]]] = defaultdict(list)
    for one, answer in zip(asked, read, strict=True):
        groups[getattr(one, by)].append((one, answer))
    figures = {}
    for name, pairs in groups.items():
        scores = [token_f1(r.answer, a.golds) if r.answer else 0.0 for a, r in pairs if a.golds]
        refused = [float(not r.answer) for a, r in pairs if not a.golds]
        row: dict[str, Any] = {"answered": len(scores), "unanswerable": len(refused)}
        if scores:
            interval = bootstrap_interval(scores)
            row |= {"f1": interval.mean, "f1_ci95": [interval.low, interval.high]}
        if refused:
            row["refused"] = mean(refused)
        figures[name] = row
    return figures


def read_spans(spans: SpanService, asked: Sequence[Asked]) -> list[Read]:
    """Return the best answer of each passage, whatever its margin."""
    pairs = [(one.question, passage_text(one.passage.title, one.passage.text)) for one in asked]
    read: list[Read] = []
    for part in tqdm(list(chunks(pairs, BATCH)), desc="span reader"):
        found = spans.reader.read(spans.processor, part)
        read += [Read(span.text, span.margin) for span in found]
    return read


def at_thresholds(
    asked: Sequence[Asked], read: Sequence[Read], thresholds: Sequence[float]
) -> dict[str, Any]:
    """Return the figures of each group as if less likely answers had not been given."""
    figures = {}
    for least in thresholds:
        kept = [r if r.confidence >= least else Read("") for r in read]
        figures[str(least)] = figures_of(asked, kept)
    return figures


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all figures that the command line asks for."""
    asked = [a for name, path in arguments.questions for a in hops_asked(name, path)]
    if arguments.reading:
        asked += reading_asked(arguments.reading, arguments.limit, arguments.seed, arguments.skip)
    figures: dict[str, Any] = {}
    if arguments.span_reader is not None:
        spans = SpanService.open(arguments.span_reader)
        whole = read_spans(spans, asked)
        read = [r if r.confidence > spans.least_margin else Read("") for r in whole]
        figures |= both_figures("span reader", asked, read)
        if arguments.thresholds:
            figures["thresholds of margins"] = at_thresholds(asked, whole, MARGINS)
    if arguments.reader is not None:
        figures |= await measure_writers(arguments, asked)
    return figures


async def measure_writers(arguments: argparse.Namespace, asked: Sequence[Asked]) -> dict[str, Any]:
    """Return the figures of the reader that writes and, where named, of all-facts extraction."""
    reader = open_helper(arguments.reader, "read")
    adapters = {READER_ADAPTER: reader.folder}
    t2t = Component.open(arguments.t2t, T2T_ADAPTER) if arguments.t2t else None
    if t2t is not None:
        adapters[T2T_ADAPTER] = t2t.folder
    engine = build_engine(
        engine_options_from(arguments), backbone=reader.backbone, adapters=adapters
    )
    try:
        focused = open_focused_extractor(engine, reader, MEMORY, arguments.grounded)
        focused.with_logprobs = True
        read = await read_focused(focused, asked)
        figures = both_figures("reader", asked, read)
        if arguments.thresholds:
            figures["thresholds"] = at_thresholds(asked, read, LOGPROBS)
        if t2t is not None:
            facts = await read_all_facts(open_extractor(engine, t2t, MEMORY), asked)
            figures |= both_figures("all facts, nearest", asked, facts)
    finally:
        await engine.close()
    return figures


def both_figures(name: str, asked: Sequence[Asked], read: Sequence[Read]) -> dict[str, Any]:
    """Return the figures of one reader, by group and by kind."""
    by_kind = figures_of(asked, read, "kind")
    return {name: figures_of(asked, read), f"{name} by kind": by_kind}


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--reading", type=Path, metavar="FILE", help="records of a question and a passage")
    add("--limit", type=int, default=1000, help="of them, by chance (default: 1000)")
    add("--skip", type=whole_number(0), default=0,
        help="leave out so many that chance puts first (default: 0)")  # fmt: skip
    add("--questions", type=name_and_path, nargs="*", default=[], metavar="NAME=FILE",
        help="questions with annotated steps and their passages")  # fmt: skip
    add("--span-reader", type=checkpoint_or_none, default=DEFAULT_SPAN_READER, metavar="DIR",
        help="extractive reader, or 'none' (default: the shipped)")  # fmt: skip
    add("--reader", type=checkpoint_or_none, default=DEFAULT_CHECKPOINTS[READER_ADAPTER],
        metavar="DIR",
        help="helper of the task read, or 'none' (default: the shipped)")  # fmt: skip
    add("--t2t", type=Path, metavar="DIR", help="text-to-triples component to compare with")
    add("--grounded", action=argparse.BooleanOptionalAction, default=True,
        help="hold answers to the passage's words (default: yes)")  # fmt: skip
    add("--thresholds", action="store_true", help="also figures at least log-probabilities")
    add("--seed", type=int, default=0, help="of the sample of --reading (default: 0)")
    add("--json", action="store_true", help="print the figures as one JSON object")
    add_engine_arguments(parser)
    return parser


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    figures = asyncio.run(measure(arguments))
    for title, groups in figures.items():
        if not title.startswith("thresholds"):
            rows = []
            for name, row in groups.items():
                answered, unanswerable, *rest = row.values()
                rows.append([name, answered, unanswerable, " ".join(map(str, rest))])
            print_table(title, ["group", "answered", "unanswerable", "figures"], rows)
    for title in ("thresholds of margins", "thresholds"):
        for least, groups in figures.get(title, {}).items():
            rows = [
                [name, row.get("f1", ""), row.get("refused", "")] for name, row in groups.items()
            ]
            print_table(f"{title}: at least {least}", ["group", "F1", "refused"], rows)
    if arguments.json:
        emit_json(figures)


if __name__ == "__main__":
    main()
