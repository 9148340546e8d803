"""Scores of condition triplets by a language model that judges (Tri-RAG §IV-D, Table V)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev

from inference.engines.contract import Engine, Request, Sampling
from models.formats.conditions import ConditionTriplet, format_condition
from models.formats.planning import one_line

FAITHFULNESS = """\
You judge how well a triplet keeps to its source passage. [C] is the condition, [P] the proof and \
[R] the conclusion.
5: proof and conclusion are wholly supported by the passage. 3: partly supported. 1: not supported.
Answer with one digit from 1 to 5 and nothing else.

Passage: {passage}
Triplet: {triplet}
Score:"""
INTEGRITY = """\
You judge the structure of a triplet that was made from a passage. [C] is the condition, which \
names what the claim is about, [P] the proof, which supports it, and [R] the conclusion, which \
states it.
5: each field is there and does its own part. 3: a field is missing or does another's part. 1: no \
usable triplet.
Answer with one digit from 1 to 5 and nothing else.

Passage: {passage}
Triplet: {triplet}
Score:"""
ALIGNMENT = """\
You judge how well a triplet's condition [C] serves to find the triplet for a question.
5: the condition names exactly what the question needs. 3: it is related. 1: it has nothing to do \
with the question.
Answer with one digit from 1 to 5 and nothing else.

Passage: {passage}
Triplet: {triplet}
Question: {question}
Score:"""
# All inputs are cut alike, so that no length is preferred.
MAX_PASSAGE_CHARACTERS = 2000
MAX_TRIPLET_CHARACTERS = 800
_DIGIT = re.compile(r"(?<!\d)[1-5](?!\d)")


@dataclass(frozen=True)
class Judged:
    """Scores of one metric; `unreadable` counts replies without a digit from 1 to 5."""

    scores: list[int]
    unreadable: int

    @property
    def mean(self) -> float | None:
        """Mean over the readable scores; None without one."""
        return fmean(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over instances, as Table V gives it; None without a score."""
        return pstdev(self.scores) if self.scores else None


@dataclass(frozen=True)
class Case:
    """A triplet beside the passage that it was made from, and a question that needs the passage."""

    passage: str
    triplet: ConditionTriplet
    question: str = ""


def faithfulness_prompt(case: Case) -> str:
    """Return the prompt for how well a triplet keeps to its passage."""
    return FAITHFULNESS.format(**_shown(case))


def integrity_prompt(case: Case) -> str:
    """Return the prompt for the parts that condition, proof and conclusion have."""
    return INTEGRITY.format(**_shown(case))


def alignment_prompt(case: Case) -> str:
    """Return the prompt for how well the condition matches the question."""
    return ALIGNMENT.format(**_shown(case), question=one_line(case.question))


def _shown(case: Case) -> dict[str, str]:
    return {
        "passage": one_line(case.passage)[:MAX_PASSAGE_CHARACTERS],
        "triplet": format_condition(case.triplet)[:MAX_TRIPLET_CHARACTERS],
    }


def of_other_passages(cases: Sequence[Case]) -> list[Case]:
    """Return the cases, each with the next triplet that was made from another passage.

    A judge should score these low in faithfulness and alignment. A case is left out where all
    triplets are of its own passage.
    """
    exchanged = []
    for place, case in enumerate(cases):
        following = (*cases[place + 1 :], *cases[:place])
        other = next((each for each in following if each.passage != case.passage), None)
        if other is not None:
            exchanged.append(replace(case, triplet=other.triplet))
    return exchanged


def with_fields_exchanged(cases: Sequence[Case]) -> list[Case]:
    """Return the cases, each with its triplet's condition as the conclusion and the reverse.

    A judge should score these low in structural integrity.
    """
    triplets = [case.triplet for case in cases]
    turned = [ConditionTriplet(t.conclusion, t.proof, t.condition) for t in triplets]
    return [replace(case, triplet=t) for case, t in zip(cases, turned, strict=True)]


async def judge(engine: Engine, prompts: Sequence[str]) -> Judged:
    """Score prompts by one digit from 1 to 5, all at once and greedily (Tri-RAG §IV-D).

    Raises EngineError. A reply that holds no digit from 1 to 5 is counted, not guessed.
    """
    requests = [
        Request(
            messages=({"role": "user", "content": prompt},), sampling=Sampling(max_new_tokens=4)
        )
        for prompt in prompts
    ]
    replies = await engine.generate(requests)
    found = [_DIGIT.search(reply.text) for reply in replies]
    scores = [int(match[0]) for match in found if match]
    return Judged(scores, len(found) - len(scores))
