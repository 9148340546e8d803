"""Where a question went wrong: retrieval, extraction, plan or answer."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from evaluation.answers import normalise_answer

Stage = Literal["correct", "plan", "retrieval", "extraction", "answer"]
STAGES: tuple[Stage, ...] = ("correct", "plan", "retrieval", "extraction", "answer")


@dataclass(frozen=True)
class NeededFact:
    """A fact that the answer rests on, and the passages that state it."""

    subject: str
    object: str
    passages: Collection[str]


def blame(
    correct: bool,
    facts: Sequence[NeededFact],
    graph: Iterable[tuple[str, str]],
    retrieved: Collection[str],
    subqueries: Iterable[str],
) -> Stage:
    """The first stage that lost a needed fact of a question that was answered wrongly.

    A fact is there when its subject and object stand in one triple of the graph. One that is
    missing is an extraction error when a passage that states it was retrieved; a retrieval error
    when a subquery asked about its subject and no such passage came; otherwise the planner never
    asked. With every fact there, the answer itself is wrong.
    """
    if correct:
        return "correct"
    known = {frozenset((normalise_answer(a), normalise_answer(b))) for a, b in graph}
    asked = " ".join(map(normalise_answer, subqueries))
    for fact in facts:
        subject, object_ = normalise_answer(fact.subject), normalise_answer(fact.object)
        if frozenset((subject, object_)) in known:
            continue
        if any(passage in retrieved for passage in fact.passages):
            return "extraction"
        return "retrieval" if subject in asked else "plan"
    return "answer"


def count_stages(stages: Iterable[Stage]) -> dict[str, int]:
    """How many questions ended at each stage, every stage named."""
    counts = Counter(stages)
    return {stage: counts[stage] for stage in STAGES}
