"""Choosing a part of the planner samples, so that trainings stay affordable."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from data_gen.splits import hash_fraction
from models.formats.plan import PlanAction
from models.formats.records import RasSample

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlanSampling:
    """How many planner samples stay.

    `per_question`: how many states with a history stay, on average over all questions; None keeps
    all. Every state has the same chance, so that labels keep their shares. `first_fraction`: the
    share of questions whose empty-history state stays; plans [NO_RETRIEVAL] always stay.
    """

    per_question: float | None = None
    first_fraction: float = 1.0
    seed: int = 0


def choose_plan_samples(samples: Iterable[RasSample], sampling: PlanSampling) -> list[RasSample]:
    """The samples that `sampling` keeps, in their order; every answer sample stays."""
    samples = list(samples)
    states = [s for s in samples if s.task == "plan" and s.history]
    questions = len({s.question_id for s in states})
    wanted = len(states) if sampling.per_question is None else sampling.per_question * questions
    share = wanted / max(len(states), 1)
    kept = {s.id for s in states if hash_fraction(f"{s.id}/state", sampling.seed) < share}
    return [s for s in samples if s.id in kept or _kept_without_history(s, sampling)]


def _kept_without_history(sample: RasSample, sampling: PlanSampling) -> bool:
    if sample.task == "answer":
        return True
    if sample.history:
        return False
    if sample.label == PlanAction.NO_RETRIEVAL:
        return True
    return hash_fraction(f"{sample.question_id}/first", sampling.seed) < sampling.first_fraction


def first_plan_counts(samples: Iterable[RasSample]) -> dict[str, int]:
    """How often a plan without a history asks for a retrieval, and how often for nothing.

    Logs a warning where most ask for nothing: a planner learns from these never to retrieve.
    """
    first = [s.label for s in samples if s.task == "plan" and not s.history]
    nothing = first.count(PlanAction.NO_RETRIEVAL)
    if len(first) > nothing > len(first) / 2:
        logger.warning(
            "%d of %d plans without a history are %s: a planner learns from them never to "
            "retrieve. Raise --first-plan-fraction or cap --no-retrieval",
            nothing, len(first), PlanAction.NO_RETRIEVAL,
        )  # fmt: skip
    return {"first plans that ask": len(first) - nothing, "first plans that ask nothing": nothing}
