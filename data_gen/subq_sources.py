"""Questions with their solving steps and retrieved passages, source by source."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from data_gen.context_search import PassageSearch
from data_gen.solving_steps import (
    SolvingStep,
    context_passages,
    evidence_titles,
    solving_steps,
)
from data_gen.streaming.disk_groups import DiskGroups, PassageTable
from data_gen.trajectories import Retrieved
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord, TriplesSample, read_records
from models.formats.triples import Triple

logger = logging.getLogger(__name__)
# Queries that are searched for at once.
_BATCH = 512


@dataclass(frozen=True)
class PreparedQuestion:
    """A question, the steps to its answer and what retrieval gives for each query.

    number: of the question among those that were read, from 0.
    """

    number: int
    record: QuestionRecord
    steps: list[SolvingStep]
    retrieved: Retrieved


class TakesAnnotation(Protocol):
    """What annotation is given to: the triples of passages, or what only notes which they are."""

    def annotate(self, steps: Iterable[SolvingStep]) -> None:
        """Take in the facts of steps as annotation of the passages that they stand in."""
        ...

    def add_given(self, passage: PassageRecord, triples: list[Triple]) -> None:
        """Take in the whole triples of a passage."""
        ...


def load_corpus(path: str | Path) -> list[PassageRecord]:
    """The passages of a corpus file. Raises ValueError when there are none."""
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


def stand_in_passages(
    records: Iterable[QuestionRecord], known: Mapping[str, PassageRecord], work: Path | None
) -> Iterator[tuple[PassageRecord, list[Triple]]]:
    """Passages made of evidence triples alone, for subjects that the corpus has no text of.

    One a subject, with its triples; a subject has the title that the solving steps know it by, in
    the triples too. What is collected lies in `work`.
    """
    facts = DiskGroups(work)
    for record in records:
        titles = {} if record.context else evidence_titles(record)
        for evidence in record.evidences if not record.context else ():
            title = titles[evidence.subject] or evidence.subject
            if title not in known:
                facts.add(title, value=json.dumps([title, evidence.predicate, evidence.object]))
    for _, lines in facts.groups():
        own = [Triple(*json.loads(line)) for line in lines]
        text = ". ".join(f"{t.predicate}: {t.object}" for t in own)
        yield PassageRecord(f"evidence/{own[0].subject}", own[0].subject, text), own
    facts.close()


@dataclass(frozen=True)
class Passages:
    """The passages of some questions by title, and those among them made of evidence alone.

    corpus: None where each question has its own context; then `by_title` holds stand-ins alone.
    """

    by_title: Mapping[str, PassageRecord]
    corpus: list[PassageRecord] | None
    stand_ins: list[PassageRecord]


def take_annotation(
    records: Iterable[QuestionRecord],
    corpus: list[PassageRecord] | None,
    triples: TakesAnnotation,
    work: Path | None = None,
) -> Passages:
    """Give the annotation of all records, which are read twice, to `triples`.

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
    return Passages(by_title, corpus, stand_ins)


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
    comes out; only `wanted` ones come out. In memory are a corpus and its index, as in
    `take_annotation`.
    """
    passages = take_annotation(records, corpus, triples, work)
    questions = (
        PreparedQuestion(number, record, solving_steps(record, passages.by_title), {})
        for number, record in enumerate(records)
        if wanted(record)
    )
    if corpus is None:
        return _over_contexts(questions, passages.by_title, top_k)
    return _over_corpus(questions, PassageSearch([*corpus, *passages.stand_ins]), top_k)


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


def _over_contexts(
    questions: Iterable[PreparedQuestion], stand_ins: Mapping[str, PassageRecord], top_k: int
) -> Iterator[PreparedQuestion]:
    for question in questions:
        queries = _queries(question)
        titles = (title or name for name, title in evidence_titles(question.record).items())
        passages = context_passages(question.record) or [
            stand_ins[title] for title in titles if title in stand_ins
        ]
        if not question.steps or not passages:
            yield replace(question, retrieved={query: [] for query in queries})
            continue
        search = PassageSearch(list(dict.fromkeys(passages)))
        found = zip(queries, search.search(queries, top_k), strict=True)
        yield replace(question, retrieved=dict(found))
