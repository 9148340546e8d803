"""Answers a world's question from gold triples alone, by going through all of them.

It shares no code with the builder: it knows the triples, the question's predicates and words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from models.formats.records import QuestionRecord
from models.formats.triples import Triple


class Solver:
    """Brute force over the triples of a whole world."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self._objects: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.triples = list(triples)
        for triple in self.triples:
            self._objects[triple.subject, triple.predicate].add(triple.object)

    def answers(self, record: QuestionRecord) -> set[str]:
        """All answers that the triples allow; a sound question has one."""
        if record.type in ("single", "bridge"):
            path = [triple.predicate for triple in record.evidences]
            return self._follow(record.evidences[0].subject, path)
        if record.type in ("comparison", "bridge_comparison"):
            return {self._compare(record)}
        if record.type == "yes_no":
            left, right = self._sides(record)
            return {"yes" if left == right else "no"}
        if record.type == "intersection":
            one, two = record.evidences
            return self._having(one) & self._having(two)
        return {solve_self_contained(record.question)}

    def _having(self, wanted: Triple) -> set[str]:
        return {
            triple.subject
            for triple in self.triples
            if (triple.predicate, triple.object) == (wanted.predicate, wanted.object)
        }

    def _follow(self, start: str, path: list[str]) -> set[str]:
        reached = {start}
        for predicate in path:
            reached = {end for name in reached for end in self._objects[name, predicate]}
        return reached

    def _sides(self, record: QuestionRecord) -> tuple[str, str]:
        half = len(record.evidences) // 2
        ends = []
        for side in (record.evidences[:half], record.evidences[half:]):
            (end,) = self._follow(side[0].subject, [triple.predicate for triple in side])
            ends.append(end)
        return ends[0], ends[1]

    def _compare(self, record: QuestionRecord) -> str:
        half = len(record.evidences) // 2
        first, second = record.evidences[0].subject, record.evidences[half].subject
        left, right = self._sides(record)
        left_is_earlier = is_earlier(left, right)
        words = re.findall(r"[a-z]+", record.question.replace(first, "").replace(second, ""))
        asks_later = any(word in ("later", "younger", "recently") for word in words)
        return first if left_is_earlier is not asks_later else second


def is_earlier(left: str, right: str) -> bool:
    """Whether one written date is before another; fails where that is not settled."""
    one, two = _span(left), _span(right)
    assert one[1] < two[0] or two[1] < one[0], (left, right)
    return one[1] < two[0]


def _span(date: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first and last day that a written date may mean."""
    for style in ("%d %B %Y", "%B %d, %Y"):
        try:
            day = datetime.strptime(date.zfill(4), style)
        except ValueError:
            continue
        return (day.year, day.month, day.day), (day.year, day.month, day.day)
    return (int(date), 1, 1), (int(date), 12, 31)


def solve_self_contained(question: str) -> str:
    """The answer of a question on numbers or letters, from its words."""
    numbers = [int(number) for number in re.findall(r"\d+", question)]
    quoted = re.findall(r'"(\w+)"', question)
    if re.search(r"\blarger\b", question):
        return str(max(numbers))
    if re.search(r"\bsmaller\b", question):
        return str(min(numbers))
    if " plus " in question or " sum of " in question:
        return str(sum(numbers))
    if "How many letters" in question:
        return str(len(quoted[0]))
    if "letter of" in question:
        return quoted[0][0] if "first" in question else quoted[0][-1]
    if "alphabet" in question:
        return min(quoted)
    assert "even" in question or "odd" in question, question
    return "yes" if (numbers[0] % 2 == 0) is ("even" in question) else "no"
