"""Test questions, and what of theirs no training data may hold.

A training question is left out where it has a test question's id or words, where it shares a hop or
an evidence triple with one, or where it is one in other words. Any shared hop and any shared triple
counts, not those alone that the test question ends in: a bridge that was trained on is a step of
the test question that needs no retrieval any more. Of 2WikiMultihopQA's 4,646 questions beside 150
test questions it costs 59, the narrower rule 52: a simple fact ("country of citizenship") is that
of one subject and seldom comes twice.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Self

from data_gen.sources.open_source import read_questions
from data_gen.subqueries import fill_hops
from data_gen.wording import content_words, question_wording, wording
from models.formats.records import QuestionRecord

# "2hop__123_456", "3hop1__1_2_3": the numbers are those of the single questions it is made of.
_MUSIQUE_ID = re.compile(r"(?:^|/)\d+hop\d*__(\d+(?:_\d+)*)$")


class Leak(StrEnum):
    """Why a question is left out, in the order in which it is looked for."""

    ID = "a test question"
    WORDING = "same wording as a test question"
    HOP = "shares a hop with a test question"
    TRIPLE = "shares an evidence triple with a test question"
    PARAPHRASE = "a test question in other words"


def leak_keys(record: QuestionRecord) -> Iterator[tuple[Leak, str]]:
    """What two questions may not share, and how they are then called.

    A hop is known by the number that MuSiQue's id has of it, and by its words, with earlier answers
    filled in, and its answer. Those of a whole question are a hop too, and an evidence triple is
    the hop "subject predicate" with its object as the answer, so that one set's hop is known as
    another's triple. In other words is a question with the same answers at each of its steps, or
    with the same content words in any order and the same answer.
    """
    yield Leak.ID, f"id/{record.id}"
    asked, answer = question_wording(record.question), wording(record.answer)
    yield Leak.WORDING, f"words/{asked}"
    yield from component_keys(record.id)
    answers = [step.answer for step in record.question_decomposition]
    for step in record.question_decomposition:
        if step.answer.strip():
            yield Leak.HOP, _fact(wording(fill_hops(step.question, answers)), step.answer)
    if answer:
        yield Leak.HOP, _fact(asked, record.answer)
    for triple in record.evidences:
        yield Leak.TRIPLE, _fact(wording(f"{triple.subject} {triple.predicate}"), triple.object)
    if len(answers) > 1 and all(found := [wording(step) for step in answers]):
        yield Leak.PARAPHRASE, f"answers/{'/'.join(found)}"
    if answer:
        yield Leak.PARAPHRASE, f"content/{' '.join(content_words(asked))}/{answer}"


def component_keys(question_id: str) -> Iterator[tuple[Leak, str]]:
    """Those of `leak_keys` that a MuSiQue id tells by itself."""
    for number in component_ids(question_id):
        yield Leak.HOP, f"component/{number}"


def component_ids(question_id: str) -> list[str]:
    """The numbers of the single questions that a MuSiQue id names; none for another id."""
    match = _MUSIQUE_ID.search(question_id)
    return match[1].split("_") if match else []


def _fact(asked: str, answer: str) -> str:
    return f"fact/{asked}/{wording(answer)}"


class HeldOutQuestions:
    """What some test questions forbid, held in memory; falsy without any question."""

    def __init__(self, questions: Iterable[QuestionRecord] = ()) -> None:
        self._keys: set[str] = set()
        for record in questions:
            self.add(record)

    @classmethod
    def of_files(cls, paths: Iterable[str | Path]) -> Self:
        """Of files in our contract; broken records are passed over. Raises FileNotFoundError."""
        return cls(
            record
            for path in paths
            for record in read_questions("contract", path, lambda error: None)
        )

    def add(self, record: QuestionRecord) -> None:
        """Take in one more."""
        self._keys.update(key for _, key in leak_keys(record))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def reason(self, record: QuestionRecord) -> Leak | None:
        """The first reason for which the question is left out; None for one that may stay."""
        return self.first(leak_keys(record))

    def first(self, keys: Iterable[tuple[Leak, str]]) -> Leak | None:
        """The first of `leak_keys` that a test question has too."""
        return next((leak for leak, key in keys if key in self._keys), None)
