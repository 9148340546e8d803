"""Questions with their solving steps and what retrieval gives for each query."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from data_gen.context_search import PassageSearch
from data_gen.solving_steps import (
    SolvingStep,
    context_passages,
    evidence_titles,
    solving_steps,
)
from data_gen.subq_sources import TakesAnnotation, take_annotation
from data_gen.trajectories import Retrieved
from models.formats.records import PassageRecord, QuestionRecord

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
