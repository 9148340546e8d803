"""The questions of a build with their passages, solving steps and simulated retrieval."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from common.shards import WHOLE
from data_gen.builds.found import Found
from data_gen.builds.shards import Deal, DealtReading, ItemT_co
from data_gen.facts.held_out import HeldOutQuestions
from data_gen.facts.solving_steps import SolvingStep, solving_steps
from data_gen.facts.stand_ins import stand_in_passages
from data_gen.samples.material import PassageSearch
from data_gen.samples.trajectories import Retrieved
from data_gen.sources.arguments import NamedPath, SkippedRecords, source_entry
from data_gen.sources.open_source import read_questions
from data_gen.sources.splits import hash_fraction
from data_gen.streaming.counts import Place, PlacedCounts
from data_gen.streaming.files import ExternalSort, from_line, sort_key, to_line
from data_gen.streaming.groups import DiskGroups, PassageTable
from models.formats.passages import context_passages
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord, TriplesSample, read_records
from models.formats.triples import Triple

# The place of what is counted when a file has been read.
_AFTER_ALL = sys.maxsize
# Queries that are searched for at once.
_BATCH = 512


class QuestionReader:
    """Reads sources one after the other and counts what is left out.

    options: `source`, `exclude`, `limit`, `cap`, `seed` and `skip_bad` of a builder's command line.
    work: where the ids of all questions lie, and those that a limit chooses from; a temporary
    folder without it. counted: which left-out questions, by id, are counted (all).
    """

    def __init__(
        self,
        options: argparse.Namespace,
        counts: PlacedCounts,
        work: Path | None = None,
        counted: Callable[[str], bool] = lambda record_id: True,
    ) -> None:
        self.options = options
        self.counts = counts
        self.skipped = SkippedRecords(options.skip_bad)
        self.sources: list[dict[str, object]] = []
        self.caps = {path: int(n) for path, _, n in (cap.rpartition("=") for cap in options.cap)}
        self._work, self._counted = work, counted
        self._taken = DiskGroups(work)
        # What test questions forbid; a world's own test questions are among them.
        worlds = [Path(source.path) for source in options.source if source.name == "world"]
        own = filter(Path.is_file, (folder / "questions_test.jsonl" for folder in worlds))
        self.excluded = HeldOutQuestions.of_files([*options.exclude, *own])

    def stream(self, source: NamedPath, stage: int = 0) -> Iterator[QuestionRecord]:
        """Yield the questions of one source that are new; to be read to its end.

        stage: where the build is, for the order of its counts. Raises RecordError,
        FileNotFoundError.
        """
        on_error = self.skipped.handler(source.name)
        read = tqdm(read_questions(source.name, source.path, on_error), desc=source.path)
        yield from self.new(source, read, stage)

    def new(
        self, source: NamedPath, read: Iterable[QuestionRecord], stage: int = 0
    ) -> Iterator[QuestionRecord]:
        """Yield a source's new questions, within its limit; to be read to its end."""
        file = len(self.sources)
        new = (r for n, r in enumerate(read) if self._is_new(r, (stage, 0, file, n)))
        limit = self.caps.get(source.path, self.options.limit)
        count = 0
        place = (stage, 0, file, _AFTER_ALL)
        for record in new if limit is None else self._first_by_hash(new, limit, place):
            self._taken.add(record.id, str(file))
            count += 1
            yield record
        self.sources.append(source_entry(source, count))

    def _first_by_hash(
        self, records: Iterable[QuestionRecord], limit: int, place: Place
    ) -> Iterator[QuestionRecord]:
        """At most `limit` records in an order by a hash of their ids; the others are counted."""
        order, beyond = ExternalSort(self._work), 0
        for number, record in enumerate(records):
            position = hash_fraction(f"cap/{record.id}", self.options.seed)
            order.add(sort_key(position, number), to_line(record))
            beyond += self._counted(record.id)
        for line in order.first(limit):
            record = from_line(line, QuestionRecord)
            beyond -= self._counted(record.id)
            yield record
        if beyond:
            self.counts.count("left out: beyond the limit", beyond, *place)

    def _is_new(self, record: QuestionRecord, place: Place) -> bool:
        reason = ""
        # An id that comes twice in one file is a matter for the check of labels.
        if self._taken.payload(record.id) not in (None, str(len(self.sources))):
            reason = "left out: same id again"
        elif leak := self.excluded.reason(record):
            reason = f"left out: {leak}"
        if reason and self._counted(record.id):
            self.counts.count(reason, 1, *place)
        return not reason


class WholeReading(DealtReading[ItemT_co]):
    """A reading of questions by a build that is never made in shards; what differs is `items`."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        """See `QuestionReader`."""
        self.options, self.work = options, work
        self.deal = Deal(WHOLE)
        self.counts = PlacedCounts()
        self.reader = QuestionReader(options, self.counts, work)

    def found(self) -> Found:
        """Return what was counted so far."""
        return Found.of(self.counts, self.reader.skipped, self.reader.sources)


class TakesAnnotation(Protocol):
    """A receiver of annotation: the triples of passages, or a note of which they are."""

    def annotate(self, steps: Iterable[SolvingStep]) -> None:
        """Take in the facts of steps as annotation of the passages that they stand in."""
        ...

    def add_given(self, passage: PassageRecord, triples: list[Triple]) -> None:
        """Take in the whole triples of a passage."""
        ...


def load_corpus(path: str | Path) -> list[PassageRecord]:
    """Return the passages of a corpus file. Raises ValueError when there are none."""
    passages = list(read_records(path, PassageRecord))
    if not passages:
        raise ValueError(f"{path}: the corpus is empty. Name a file with passages")
    return passages


def world_triples(
    folder: Path,
    corpus: list[PassageRecord],
    triples: TakesAnnotation,
    work: Path | None = None,
) -> None:
    """Give a world's triples.jsonl to `triples`, matched to its passages by their text.

    Not by their ids: these are the same in every world, and `corpus` may hold several worlds.
    """
    by_text = DiskGroups(work)
    for sample in read_records(folder / "triples.jsonl", TriplesSample):
        by_text.add(sample.text, json.dumps(sample.to_json()["triples"]), replace=True)
    for passage in corpus:
        found = by_text.payload(passage_text(passage.title, passage.text))
        if found is not None:
            triples.add_given(passage, [Triple(*parts) for parts in json.loads(found)])
    by_text.close()


def take_annotation(
    records: Iterable[QuestionRecord],
    corpus: list[PassageRecord] | None,
    triples: TakesAnnotation,
    work: Path | None = None,
) -> tuple[Mapping[str, PassageRecord], list[PassageRecord]]:
    """Give the annotation of all records, which are read twice, to `triples`.

    Returns the passages by title, and those among them that are made of annotation alone.

    A corpus is held in memory; what grows with the records is kept in `work`.
    """
    known: dict[str, PassageRecord] = {}
    for passage in corpus or ():
        known.setdefault(passage.title, passage)
    table = PassageTable(work)
    by_title: Mapping[str, PassageRecord] = table if corpus is None else known
    stand_ins: list[PassageRecord] = []
    for passage, facts in stand_in_passages(records, known, work):
        triples.add_given(passage, facts)
        if corpus is None:
            table.add(passage)
        else:
            stand_ins.append(passage)
    known.update((passage.title, passage) for passage in stand_ins)
    for record in tqdm(records, desc="steps", unit="question"):
        triples.annotate(solving_steps(record, by_title))
    return by_title, stand_ins


@dataclass(frozen=True)
class PreparedQuestion:
    """A question, the steps to its answer and what retrieval gives for each query.

    number: of the question among those that were read, from 0.
    """

    number: int
    record: QuestionRecord
    steps: list[SolvingStep]
    retrieved: Retrieved


def prepare_questions(
    records: Iterable[QuestionRecord],
    corpus: list[PassageRecord] | None,
    triples: TakesAnnotation,
    top_k: int,
    work: Path | None = None,
    wanted: Callable[[QuestionRecord], bool] = lambda record: True,
) -> Iterator[PreparedQuestion]:
    """Steps and retrieval of each question, over the corpus or over each record's own context.

    records: read three times. The annotation of all is given to `triples` before the first question
    comes out; only `wanted` ones come out. top_k: passages a query; 0 retrieves nothing. In memory
    are a corpus and its index, as in `take_annotation`.
    """
    by_title, stand_ins = take_annotation(records, corpus, triples, work)
    questions = (
        PreparedQuestion(number, record, solving_steps(record, by_title), {})
        for number, record in enumerate(records)
        if wanted(record)
    )
    if not top_k:
        return questions
    if corpus is None:
        return _over_contexts(questions, top_k)
    return _over_corpus(questions, PassageSearch([*corpus, *stand_ins]), top_k)


def _queries(question: PreparedQuestion) -> list[str]:
    subqueries = (step.subquery for step in question.steps)
    return list(dict.fromkeys([question.record.question, *subqueries]))


def _over_corpus(
    questions: Iterable[PreparedQuestion], search: PassageSearch, top_k: int
) -> Iterator[PreparedQuestion]:
    waiting: list[PreparedQuestion] = []
    queries: dict[str, None] = {}
    for question in questions:
        waiting.append(question)
        if question.steps:
            queries.update(dict.fromkeys(_queries(question)))
        if max(len(queries), len(waiting)) >= _BATCH:
            yield from _searched(waiting, list(queries), search, top_k)
            waiting, queries = [], {}
    yield from _searched(waiting, list(queries), search, top_k)


def _searched(
    questions: list[PreparedQuestion], queries: list[str], search: PassageSearch, top_k: int
) -> Iterator[PreparedQuestion]:
    found = dict(zip(queries, search.search(queries, top_k), strict=True))
    for question in questions:
        own = {query: found[query] for query in _queries(question)} if question.steps else {}
        yield replace(question, retrieved=own)


def _over_contexts(questions: Iterable[PreparedQuestion], top_k: int) -> Iterator[PreparedQuestion]:
    for question in questions:
        queries = _queries(question)
        passages = context_passages(question.record) or [
            step.passage for step in question.steps if step.passage is not None
        ]
        if not question.steps or not passages:
            yield replace(question, retrieved={query: [] for query in queries})
            continue
        search = PassageSearch(list(dict.fromkeys(passages)))
        found = zip(queries, search.search(queries, top_k), strict=True)
        yield replace(question, retrieved=dict(found))
