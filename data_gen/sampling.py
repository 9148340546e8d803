"""Choosing a part of the planner samples, so that trainings stay affordable."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from data_gen.splits import hash_fraction
from models.formats.plan import PlanAction
from models.formats.records import RasSample


@dataclass(frozen=True)
class PlanSampling:
    """How many planner samples stay.

    `per_question`: how many states with a history a question keeps on average (1.3: one, and a
    second for 30 % of the questions); None keeps all. `first_fraction`: the share of questions
    whose empty-history state stays; plans [NO_RETRIEVAL] always stay.
    """

    per_question: float | None = None
    first_fraction: float = 1.0
    seed: int = 0


def choose_plan_samples(samples: Iterable[RasSample], sampling: PlanSampling) -> list[RasSample]:
    """The samples that `sampling` keeps, in their order; every answer sample stays."""
    samples = list(samples)
    states: dict[str, list[RasSample]] = defaultdict(list)
    for sample in samples:
        if sample.task == "plan" and sample.history:
            states[sample.question_id].append(sample)
    kept = {s.id for own in states.values() for s in _chosen_states(own, sampling)}
    return [s for s in samples if s.id in kept or _kept_without_history(s, sampling)]


def _chosen_states(states: list[RasSample], sampling: PlanSampling) -> list[RasSample]:
    if sampling.per_question is None:
        return states
    whole = int(sampling.per_question)
    share = sampling.per_question - whole
    question = states[0].question_id
    count = whole + (hash_fraction(f"{question}/states", sampling.seed) < share)
    return sorted(states, key=lambda s: hash_fraction(s.id, sampling.seed))[:count]


def _kept_without_history(sample: RasSample, sampling: PlanSampling) -> bool:
    if sample.task == "answer":
        return True
    if sample.history:
        return False
    if sample.label == PlanAction.NO_RETRIEVAL:
        return True
    return hash_fraction(f"{sample.question_id}/first", sampling.seed) < sampling.first_fraction
