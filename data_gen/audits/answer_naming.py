"""Sub-queries that name the answer of their question before anything told it.

A planner that learns from these guesses the answer into its sub-query. A plan does not hold its
question's answer, and files are not in the questions' order, so answers are kept as hashes in a
first pass (17 bytes each) and looked for in a second."""

from array import array
from collections.abc import Iterable

import numpy as np

from data_gen.audits.findings import Choice, Example, Finding, Place, Reservoir, Severity, graded
from data_gen.audits.hashes import as_numpy, text_hash
from data_gen.audits.subqueries import asked_by
from data_gen.audits.table import Seen
from data_gen.entity_text import entity_key, plain_words
from models.formats.records import QuestionRecord, RasSample

# What stands in many questions without being their answer; a single letter is a choice of ARC.
_NO_NAMES = frozenset(["yes", "no", "true", "false", "none", "unknown"])
Answer = tuple[int, int]
"""A name as the hash of its key and the number of its words."""


def named_answer(answer: str) -> Answer | None:
    """An answer that can be looked for; None for yes, no and single characters."""
    key = entity_key(answer)
    if len(key) < 2 or key in _NO_NAMES:
        return None
    return text_hash(key), len(key.split())


def names(text: str, answer: Answer) -> bool:
    """Whether the words of the answer stand together in `text`, as `mentions` compares them."""
    key, length = answer
    words = plain_words(text).split()
    ends = range(length, len(words) + 1)
    return any(text_hash(" ".join(words[end - length : end])) == key for end in ends)


class AnswerNaming:
    """Joins sub-queries with their questions' answers; answers come from samples and from files."""

    def __init__(self, choice: Choice, questions: Iterable[QuestionRecord] = ()) -> None:
        self._owners, self._keys, self._lengths = array("Q"), array("Q"), array("B")
        self._plans = self._checked = 0
        self._guessed = Reservoir(choice, "subquery_names_answer")
        self._found = Reservoir(choice, "subquery_names_found_answer")
        self._sorted: tuple[np.ndarray, np.ndarray] | None = None
        for record in questions:
            for answer in record.answers:
                self._add(record.id, answer)

    def see(self, seen: Seen) -> None:
        """First pass: take in an answer."""
        if seen.record.task == "answer":
            self._add(seen.record.question_id, seen.label)

    def _add(self, question_id: str, answer: str) -> None:
        named = named_answer(answer)
        self._owners.append(text_hash(question_id))
        self._keys.append(named[0] if named else 0)
        # No sub-query has so many words; zero marks an answer that cannot be looked for.
        self._lengths.append(min(named[1], 255) if named else 0)

    def see_again(self, place: Place, sample: RasSample) -> None:
        """Second pass: look for its question's answers in a plan's sub-query."""
        subquery = asked_by(sample)
        if not subquery:
            return
        self._plans += 1
        answers = self._answers(sample.question_id)
        self._checked += bool(answers)
        told = [answer for answer in answers if names(subquery, answer)]
        told = [answer for answer in told if not names(sample.question, answer)]
        if not told:
            return
        known = all(any(names(text, answer) for text in _history_texts(sample)) for answer in told)
        (self._found if known else self._guessed).offer(Example((place,), subquery))

    def _answers(self, question_id: str) -> list[Answer]:
        """The distinct answers of a question."""
        if self._sorted is None:
            owners = as_numpy(self._owners)
            order = np.argsort(owners, kind="stable")
            self._sorted = owners[order], order
        owners, order = self._sorted
        key = np.uint64(text_hash(question_id))
        start, end = np.searchsorted(owners, key), np.searchsorted(owners, key, side="right")
        found = [(self._keys[i], self._lengths[i]) for i in order[start:end]]
        return [answer for answer in dict.fromkeys(found) if answer[1]]

    def findings(self) -> list[Finding]:
        """What was found, as a share of the sub-queries whose question's answer is at hand."""
        of = f"sub-queries whose answer is at hand (of {self._plans} in all)"
        guessed, found = self._guessed, self._found
        return [
            Finding(
                "subquery_names_answer",
                graded(Severity.ERROR, guessed.seen),
                guessed.seen,
                self._checked,
                of,
                "name the answer, which neither the question nor the history does: a planner "
                "learns to guess",
                "word the sub-query by what is known at its step (data_gen/subqueries.py)",
                guessed.examples(),
            ),
            Finding(
                "subquery_names_found_answer",
                graded(Severity.NOTE, found.seen),
                found.seen,
                self._checked,
                of,
                "name the answer after the history told it: they ask on about it",
                "nothing, where the question compares or needs a further fact",
                found.examples(),
            ),
        ]


def _history_texts(sample: RasSample) -> list[str]:
    triples = [triple for step in sample.history for triple in step.triples]
    return [text for triple in triples for text in (triple.subject, triple.object)]
