"""Sub-queries that ask again, or name the answer before anything told it."""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from data_gen.audits.findings import Choice, Example, Finding, Place, Reservoir, Severity
from data_gen.audits.table import Seen, as_numpy, text_hash
from data_gen.facts.entities import entity_key, plain_words
from data_gen.facts.held_out import wording
from models.formats.planning import parse_plans, subqueries_of
from models.formats.records import QuestionRecord, RasSample

# What stands in many questions without being their answer; a single letter is a choice of ARC.
_NO_NAMES = frozenset(["yes", "no", "true", "false", "none", "unknown"])
Answer = tuple[int, int]
"""A name as the hash of its key and the number of its words."""


def asked_by(sample: RasSample) -> list[str]:
    """Return the sub-queries that a plan's label asks; none for answers and other plans."""
    return subqueries_of(parse_plans(sample.label).plans) if sample.task == "plan" else []


def repeated_step(sample: RasSample) -> int | None:
    """Return the position of a step whose words the label's sub-queries repeat, or None."""
    steps = [wording(step.subquery) for step in sample.history]
    asked = map(wording, asked_by(sample))
    return next((steps.index(text) for text in asked if text and text in steps), None)


def history_repeats(sample: RasSample) -> bool:
    """Return whether two steps of the history ask the same in their words."""
    steps = [wording(step.subquery) for step in sample.history]
    return len(set(steps)) < len(steps)


class RepeatedSubqueries:
    """Counts plans that ask again, and histories that hold one sub-query twice."""

    def __init__(self, choice: Choice) -> None:
        self._plans = self._histories = 0
        self._asked_again = Reservoir(choice, "repeated_subquery")
        self._twice = Reservoir(choice, "history_repeats")

    def see(self, seen: Seen) -> None:
        """Count one sample."""
        sample: RasSample = seen.record
        self._histories += bool(sample.history)
        if sample.history and history_repeats(sample):
            self._twice.offer(Example((seen.place,)))
        if sample.history and asked_by(sample):
            self._plans += 1
            if (step := repeated_step(sample)) is not None:
                self._asked_again.offer(Example((seen.place,), f"repeats step {step}"))

    def findings(self) -> list[Finding]:
        """Return the findings."""
        return [
            self._asked_again.finding(
                Severity.ERROR, self._plans, "plans that ask on",
                "ask what their history has asked before: a planner learns to go round in circles",
                "leave out the step, or label the state [SUFFICIENT]",
            ),
            self._twice.finding(
                Severity.WARNING, self._histories, "samples with a history",
                "show a history that asks the same twice",
                "keep each sub-query of a question once (data_gen/facts/solving_steps.py)",
            ),
        ]  # fmt: skip


class NameSearch:
    """Looks names up by the hashes of their words, in one pass over a corpus of any size."""

    def __init__(self) -> None:
        self._steps = array("Q")
        self._hashes = array("Q")
        # By its first word a name is passed over quickly.
        self._starts: dict[int, set[int]] = {}

    def add(self, step: int, names: Iterable[str]) -> None:
        """A step's names, to be looked for."""
        for name in names:
            words = entity_key(name).split()
            if words:
                self._steps.append(step)
                self._hashes.append(text_hash(" ".join(words)))
                self._starts.setdefault(text_hash(words[0]), set()).add(len(words))

    def search(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps that were searched for, and those of which a text holds a name."""
        wanted, held = set(self._hashes), set()
        for text in texts:
            held |= wanted.intersection(self._runs(plain_words(text).split()))
        steps, hashes = as_numpy(self._steps), as_numpy(self._hashes)
        return np.unique(steps), np.unique(steps[np.isin(hashes, list(held))])

    def _runs(self, words: Sequence[str]) -> Iterable[int]:
        """Yield the hashes of the runs of words that may be names."""
        for start, word in enumerate(words):
            for length in self._starts.get(text_hash(word), ()):
                if start + length <= len(words):
                    yield text_hash(" ".join(words[start : start + length]))


def named_answer(answer: str) -> Answer | None:
    """Return an answer that can be looked for; None for yes, no and single characters."""
    key = entity_key(answer)
    if len(key) < 2 or key in _NO_NAMES:
        return None
    return text_hash(key), len(key.split())


def names(text: str, answer: Answer) -> bool:
    """Return whether the answer's words stand together in `text`, as `mentions` compares them."""
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
        """Second pass: look for its question's answers in a plan's sub-queries."""
        for subquery in asked_by(sample):
            self._look_for_answers(place, sample, subquery)

    def _look_for_answers(self, place: Place, sample: RasSample, subquery: str) -> None:
        self._plans += 1
        answers = self._answers(sample.question_id)
        self._checked += bool(answers)
        told = [answer for answer in answers if names(subquery, answer)]
        told = [answer for answer in told if not names(sample.question, answer)]
        if not told:
            return
        triples = [triple for step in sample.history for triple in step.triples]
        texts = [text for triple in triples for text in (triple.subject, triple.object)]
        known = all(any(names(text, answer) for text in texts) for answer in told)
        (self._found if known else self._guessed).offer(Example((place,), subquery))

    def _answers(self, question_id: str) -> list[Answer]:
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
        """Return what was found among the sub-queries whose question's answer is at hand."""
        unit = f"sub-queries whose answer is at hand (of {self._plans} in all)"
        return [
            self._guessed.finding(
                Severity.ERROR, self._checked, unit,
                "name the answer, which neither the question nor the history does: a planner "
                "learns to guess",
                "word the sub-query by what is known at its step (models/facts/subqueries.py)",
            ),
            self._found.finding(
                Severity.NOTE, self._checked, unit,
                "name the answer after the history told it: they ask on about it",
                "nothing, where the question compares or needs a further fact",
            ),
        ]  # fmt: skip
