"""Passages made of annotation alone, for facts whose text a source does not bring."""

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

from data_gen.facts.entities import entity_key
from data_gen.facts.held_out import wording
from data_gen.facts.solving_steps import decomposition_steps, evidence_titles
from data_gen.sources.splits import hash_fraction
from data_gen.streaming.groups import DiskGroups
from models.facts.subqueries import asked_relation
from models.formats.records import PassageRecord, QuestionRecord
from models.formats.triples import Triple

_ID = "annotation/"
# How often a question that asks for something else finds what the passage tells.
_LED_THERE = 0.5


def stand_in_passages(
    records: Iterable[QuestionRecord], known: Container[str], work: Path | None
) -> Iterator[tuple[PassageRecord, list[Triple]]]:
    """Yield a passage for each title that annotation tells of without a text, with its triples.

    The title is an evidence's subject, as the solving steps know it, or a decomposition step's
    question; none of a `known` title comes. What is collected lies in `work`.
    """
    told = DiskGroups(work)
    for record in records:
        for title, text, triple in () if record.context else _told(record):
            if title not in known:
                told.add(title, title, json.dumps([text, *triple]))
    for title, lines in told.groups():
        read = [json.loads(line) for line in lines]
        text = ". ".join(text for text, *_ in read)
        yield PassageRecord(_ID + title, title, text), [Triple(*parts) for _, *parts in read]
    told.close()


def _told(record: QuestionRecord) -> Iterator[tuple[str, str, tuple[str, str, str]]]:
    """Yield title, text and triple of each fact."""
    titles = evidence_titles(record)
    for fact in record.evidences:
        title = titles[fact.subject] or fact.subject
        yield title, f"{fact.predicate}: {fact.object}", (title, fact.predicate, fact.object)
    for step in () if record.evidences else decomposition_steps(record, {}):
        fact = step.fact
        yield step.subquery, step.answer, (fact.subject, fact.predicate, fact.object)


def is_stand_in(passage: PassageRecord) -> bool:
    """Return whether a passage is made of annotation."""
    return passage.id.startswith(_ID)


def told_by(
    passage: PassageRecord, triples: Sequence[Triple], subquery: str, seed: int = 0
) -> list[Triple]:
    """Return what a reader would find in a stand-in that has these triples.

    To a subquery that asks for one of them, that one; to another, such as the question of several
    hops, all of them in half of the draws of the seed, as such readers find what leads there.
    """
    if wording(subquery) == wording(passage.title):
        return list(triples)
    if asked := asked_relation(subquery):
        subject, relation = asked
        about = entity_key(subject) == entity_key(passage.title)
        if answers := [t for t in triples if about and t.predicate == relation]:
            return answers
    draw = hash_fraction(f"{passage.id}/{wording(subquery)}", seed)
    return list(triples) if draw < _LED_THERE else []
