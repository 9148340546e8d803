"""An LLM as the judge of condition triplets: one digit from 1 to 5, greedy (Tri-RAG §IV-D)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
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


def faithfulness_prompt(passage: str, triplet: ConditionTriplet) -> str:
    """Return what the judge reads of a passage and a triplet made from it."""
    return FAITHFULNESS.format(**_shown(passage, triplet))


def alignment_prompt(passage: str, triplet: ConditionTriplet, question: str) -> str:
    """Return the same with the question that the condition should match."""
    return ALIGNMENT.format(**_shown(passage, triplet), question=one_line(question))


def _shown(passage: str, triplet: ConditionTriplet) -> dict[str, str]:
    return {
        "passage": one_line(passage)[:MAX_PASSAGE_CHARACTERS],
        "triplet": format_condition(triplet)[:MAX_TRIPLET_CHARACTERS],
    }


async def judge(engine: Engine, prompts: Sequence[str], adapter: str | None = None) -> Judged:
    """Score prompts, all at once, with deterministic decoding.

    Raises EngineError. A reply that holds no digit from 1 to 5 is counted, not guessed.
    """
    requests = [
        Request(
            messages=({"role": "user", "content": prompt},),
            adapter=adapter,
            sampling=Sampling(max_new_tokens=4),
        )
        for prompt in prompts
    ]
    replies = await engine.generate(requests)
    found = [_DIGIT.search(reply.text) for reply in replies]
    scores = [int(match[0]) for match in found if match]
    return Judged(scores, len(found) - len(scores))
