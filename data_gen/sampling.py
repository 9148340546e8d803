"""Choosing a part of the samples: so that trainings stay affordable, and what they teach."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from data_gen.splits import hash_fraction
from models.formats.plan import PlanAction
from models.formats.records import RasSample

logger = logging.getLogger(__name__)

# States with as many steps or more are balanced together.
MOST_STEPS_APART = 3


@dataclass(frozen=True)
class PlanSampling:
    """Which samples stay.

    per_question: how many states with a history stay, on average over all questions; None keeps
        all. Every state has the same chance, so that labels keep their shares.
    first_fraction: the share of questions whose empty-history state stays; plans [NO_RETRIEVAL]
        always stay.
    balanced: of the states with one step, with two, and with more, as many stay that ask on as
        that have enough. Otherwise the number of steps alone foretells most labels, and a small
        planner learns to count them.
    answer_fraction: the share of questions whose answer stays.
    """

    per_question: float | None = None
    first_fraction: float = 1.0
    seed: int = 0
    balanced: bool = False
    answer_fraction: float = 1.0


def choose_plan_samples(samples: Iterable[RasSample], sampling: PlanSampling) -> list[RasSample]:
    """The samples that `sampling` keeps, in their order."""
    samples = list(samples)
    states = [s for s in samples if s.task == "plan" and s.history]
    if sampling.balanced:
        states = balanced_states(states, sampling.seed)
    questions = len({s.question_id for s in states})
    wanted = len(states) if sampling.per_question is None else sampling.per_question * questions
    share = wanted / max(len(states), 1)
    kept = {s.id for s in states if hash_fraction(f"{s.id}/state", sampling.seed) < share}
    return [s for s in samples if s.id in kept or _kept_without_history(s, sampling)]


def balanced_states(states: Sequence[RasSample], seed: int) -> list[RasSample]:
    """As many states that ask on as that have enough, for each number of steps; chosen by hash."""
    groups: dict[tuple[int, bool], list[RasSample]] = defaultdict(list)
    for state in states:
        enough = state.label == PlanAction.SUFFICIENT
        groups[min(len(state.history), MOST_STEPS_APART), enough].append(state)
    kept: set[str] = set()
    for (steps, enough), group in groups.items():
        others = len(groups.get((steps, not enough), []))
        order = sorted(group, key=lambda state: hash_fraction(f"{state.id}/balance", seed))
        kept.update(state.id for state in order[:others])
    return [state for state in states if state.id in kept]


def label_by_steps_alone(samples: Iterable[RasSample]) -> float:
    """Share of plans with a history whose kind the number of steps foretells; 0 without any.

    A planner's label accuracy has to be read against it.
    """
    counts: dict[int, Counter[bool]] = defaultdict(Counter)
    for sample in samples:
        if sample.task == "plan" and sample.history:
            counts[len(sample.history)][sample.label == PlanAction.SUFFICIENT] += 1
    return foretold_share(counts)


def foretold_share(counts: Mapping[int, Counter[bool]]) -> float:
    """Share of what is counted that has its group's most frequent value; 0 for nothing.

    counts: by number of steps, how many plans have enough (True) and how many ask on.
    """
    total = sum(count.total() for count in counts.values())
    return sum(max(count.values()) for count in counts.values()) / max(total, 1)


def _kept_without_history(sample: RasSample, sampling: PlanSampling) -> bool:
    if sample.task == "answer":
        chance = hash_fraction(f"{sample.question_id}/answer", sampling.seed)
        return chance < sampling.answer_fraction
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
