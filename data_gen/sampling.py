"""Choosing a part of the planner samples, so that trainings stay affordable."""

from collections.abc import Iterable
from dataclasses import dataclass

from data_gen.splits import hash_fraction
from models.formats.plan import PlanAction
from models.formats.records import RasSample


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
