"""Rewards of a trajectory: what its answer was worth, what it found, and how it behaved.

A reward of the answer alone is maximised by refusing once right answers are rare, and by plans that
mean nothing; the penalties are there against that (Search-R1++, arXiv 2602.19526).
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from common.errors import UserError
from common.names import did_you_mean
from evaluation.answers import exact_match, normalise_answer, token_f1
from evaluation.component_scores import TripleLike, normalise_field

# Whole answers that decline, as `normalise_answer` leaves them.
_REFUSALS = frozenset(
    normalise_answer(text)
    for text in (
        "", "nothing", "none", "unknown", "noanswer", "no answer", "n/a", "not known", "unclear",
        "not mentioned", "not specified", "not provided", "not enough information",
        "insufficient information", "i do not know", "i don't know", "don't know",
        "cannot be determined", "cannot answer", "i cannot answer",
    )
)  # fmt: skip
_CLOSED = frozenset({"yes", "no"})


class WeightError(UserError, ValueError):
    """A weight that is none of a reward's, or no number."""


class TrajectoryLike(Protocol):
    """What a reward reads of a trajectory."""

    @property
    def answer(self) -> str: ...

    @property
    def searches(self) -> int: ...

    @property
    def drawn_tokens(self) -> int: ...

    @property
    def undrawn_calls(self) -> int: ...

    @property
    def retrieved_titles(self) -> Collection[str]: ...

    @property
    def malformed_calls(self) -> int: ...

    @property
    def empty_calls(self) -> int: ...

    @property
    def repeated_subqueries(self) -> int: ...

    @property
    def extracted(self) -> Sequence[tuple[str, Sequence[TripleLike]]]: ...

    @property
    def drawn_extractions(self) -> Sequence[tuple[str, Sequence[TripleLike]]]: ...


class QuestionLike(Protocol):
    """What a reward reads of an annotated question."""

    @property
    def question(self) -> str: ...

    @property
    def answers(self) -> Sequence[str]: ...

    @property
    def supporting_facts(self) -> Sequence[tuple[str, int]]: ...


Parts = Mapping[str, float | None]


@dataclass(frozen=True)
class RewardWeights:
    """What each part of a reward counts. Weights of `PENALTIES` are taken off; none is negative.

    f1, em: of the answer. gain: F1 less that of a baseline's answer to the question (s3). recall:
    share of the annotated passages that were retrieved. deduced: 1 where the answer can be deduced
    from what text-to-triples wrote of the annotated passages (after AutoGraph-R1), else 0.
    repeated_triples: share of the triples that were drawn of them which repeat another of their
    passage. searches, malformed, repeated, empty: counts. tokens: thousands of weighted tokens of
    what was drawn. undrawn: calls that were not, such as readings of passages for a planner.
    refused: 1 for an answer that declines.
    The defaults are a start and were not tuned.
    """

    f1: float = 1.0
    em: float = 0.0
    gain: float = 0.0
    recall: float = 0.0
    deduced: float = 0.0
    repeated_triples: float = 0.0
    searches: float = 0.0
    tokens: float = 0.0
    undrawn: float = 0.0
    malformed: float = 0.2
    repeated: float = 0.2
    empty: float = 0.2
    refused: float = 0.2

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            if not 0 <= weight < float("inf"):
                raise WeightError(f"weight {name}={weight}: give a number of 0 or more")

    @classmethod
    def read(cls, given: Sequence[str]) -> "RewardWeights":
        """Return the defaults with those that `NAME=WEIGHT` texts give; raises WeightError."""
        weights: dict[str, float] = {}
        for text in given:
            name, _, value = text.partition("=")
            if name not in PARTS:
                near = did_you_mean(name, PARTS)
                raise WeightError(f"no part of a reward is called {name!r}, {near}")
            try:
                weights[name] = float(value)
            except ValueError:
                raise WeightError(f"weight {text!r}: write NAME=NUMBER, as {name}=0.5") from None
        return cls(**weights)

    def total(self, parts: Parts) -> float | None:
        """Return the weighted sum of the parts; None where one that counts is None or missing."""
        total = 0.0
        for name, weight in vars(self).items():
            if not weight:
                continue
            value = parts.get(name)
            if value is None:
                return None
            total += -weight * value if name in PENALTIES else weight * value
        return total


PARTS = tuple(each.name for each in fields(RewardWeights))
PENALTIES = frozenset(
    (
        "repeated_triples",
        "searches",
        "tokens",
        "undrawn",
        "malformed",
        "repeated",
        "empty",
        "refused",
    )
)


OF_GOLD_ANSWERS = ("f1", "em", "gain", "deduced")
OF_ANNOTATED_PASSAGES = ("recall", "deduced", "repeated_triples")


def check_annotations(weights: RewardWeights, questions: Sequence[QuestionLike]) -> None:
    """Raise WeightError where a part that has a weight cannot be told of any of the questions."""
    for names, annotated, needed in (
        (OF_GOLD_ANSWERS, gold_answers, "an answer"),
        (OF_ANNOTATED_PASSAGES, _annotated, "supporting_facts"),
    ):
        weighted = [name for name in names if getattr(weights, name)]
        if weighted and not any(map(annotated, questions)):
            raise WeightError(
                f"no question has {needed}, without which no trajectory has a reward: annotate "
                f"them, or give {' '.join(f'{name}=0' for name in weighted)} among the weights"
            )


def reward_parts(
    trajectory: TrajectoryLike, question: QuestionLike, baseline_f1: float | None = None
) -> dict[str, float | None]:
    """Return every part of a reward by name, unweighted; None where nothing tells.

    baseline_f1: of the same reader's answer after plain retrieval; None where there is none.
    """
    golds = gold_answers(question)
    f1 = token_f1(trajectory.answer, golds) if golds else None
    return {
        "f1": f1,
        "em": exact_match(trajectory.answer, golds) if golds else None,
        "gain": None if f1 is None or baseline_f1 is None else f1 - baseline_f1,
        "recall": recall(trajectory, question),
        "deduced": deduced(trajectory, question),
        "repeated_triples": repeated_triples(trajectory, question),
        "searches": float(trajectory.searches),
        "tokens": trajectory.drawn_tokens / 1000,
        "undrawn": float(trajectory.undrawn_calls),
        "malformed": float(trajectory.malformed_calls),
        "repeated": float(trajectory.repeated_subqueries),
        "empty": float(trajectory.empty_calls),
        "refused": float(refuses(trajectory.answer, golds)),
    }


def gold_answers(question: QuestionLike) -> list[str]:
    """Return the answers that are not blank."""
    return [answer for answer in question.answers if answer.strip()]


def refuses(answer: str, golds: Sequence[str] = ()) -> bool:
    """Return whether an answer declines; one that is right does not, whatever its words."""
    if golds and exact_match(answer, golds):
        return False
    return normalise_answer(answer) in _REFUSALS


def recall(trajectory: TrajectoryLike, question: QuestionLike) -> float | None:
    """Return the share of the annotated titles that were retrieved; None without annotation."""
    titles = _annotated(question)
    if not titles:
        return None
    return len(titles & set(trajectory.retrieved_titles)) / len(titles)


def deduced(trajectory: TrajectoryLike, question: QuestionLike) -> float | None:
    """Return 1.0 where a path leads from an entity of the question to the answer, else 0.0.

    The graph is that of the triples that text-to-triples wrote of the annotated passages, read in
    both directions; names are compared as answers are. None without a gold answer or annotated
    passages, where text-to-triples read nothing, for "yes" and "no", and where the answer stands in
    the question: a path says nothing there.
    """
    golds = {normalise_answer(gold) for gold in gold_answers(question)} - {""}
    asked = f" {normalise_answer(question.question)} "
    if not golds or golds & _CLOSED or any(f" {gold} " in asked for gold in golds):
        return None
    passages = _of_annotated(trajectory.extracted, question)
    if passages is None:
        return None
    neighbours: dict[str, set[str]] = {}
    for triple in (triple for triples in passages for triple in triples):
        one, other = normalise_answer(triple.subject), normalise_answer(triple.object)
        if one and other:
            neighbours.setdefault(one, set()).add(other)
            neighbours.setdefault(other, set()).add(one)
    starts = [name for name in neighbours if f" {name} " in asked]
    return float(bool(_reached(neighbours, starts) & golds))


def repeated_triples(trajectory: TrajectoryLike, question: QuestionLike) -> float | None:
    """Return the share of the annotated passages' triples that repeat another of their passage.

    Of those that text-to-triples drew: what a cache gives is distinct, whoever wrote it. None where
    it drew none of these passages; 0.0 where it wrote nothing of them.
    """
    passages = _of_annotated(trajectory.drawn_extractions, question)
    if passages is None:
        return None
    written = sum(map(len, passages))
    distinct = sum(len({_key(triple) for triple in triples}) for triples in passages)
    return 1 - distinct / written if written else 0.0


def _annotated(question: QuestionLike) -> set[str]:
    return {title for title, _ in question.supporting_facts}


def _of_annotated(
    extracted: Sequence[tuple[str, Sequence[TripleLike]]], question: QuestionLike
) -> list[Sequence[TripleLike]] | None:
    """Return what was written of each annotated passage; None where none of them was read."""
    titles = _annotated(question)
    return [triples for title, triples in extracted if title in titles] or None


def _key(triple: TripleLike) -> tuple[str, ...]:
    return tuple(map(normalise_field, (triple.subject, triple.predicate, triple.object)))


def _reached(neighbours: Mapping[str, Collection[str]], starts: Sequence[str]) -> set[str]:
    """Return every name that a path leads to, the starts included."""
    reached, waiting = set(starts), deque(starts)
    while waiting:
        for name in neighbours[waiting.popleft()]:
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached
