"""Which plans ask on, which have enough and which need nothing."""

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping

from models.formats.plan import PlanAction
from models.formats.records import RasSample

logger = logging.getLogger(__name__)


class PlanKinds:
    """Counts which plans ask on and which do not, by the number of their steps."""

    def __init__(self) -> None:
        self._by_steps: dict[int, Counter[bool]] = defaultdict(Counter)
        self._first: Counter[bool] = Counter()

    def add(self, sample: RasSample) -> None:
        """Count one sample; answers do not matter."""
        if sample.task == "plan" and sample.history:
            self._by_steps[len(sample.history)][sample.label == PlanAction.SUFFICIENT] += 1
        elif sample.task == "plan":
            self._first[sample.label == PlanAction.NO_RETRIEVAL] += 1

    def label_by_steps_alone(self) -> float:
        """Share of plans with a history whose kind the number of steps foretells; 0 without any.

        A planner's label accuracy has to be read against it.
        """
        return foretold_share(self._by_steps)

    def first_plan_counts(self) -> dict[str, int]:
        """How often a plan without a history asks for a retrieval, and how often for nothing.

        Logs a warning where most ask for nothing: a planner learns from these never to retrieve.
        """
        asking, nothing = self._first[False], self._first[True]
        if asking and nothing > asking:
            logger.warning(
                "%d of %d plans without a history are %s: a planner learns from them never to "
                "retrieve. Raise --first-plan-fraction or cap --no-retrieval",
                nothing, asking + nothing, PlanAction.NO_RETRIEVAL,
            )  # fmt: skip
        return {"first plans that ask": asking, "first plans that ask nothing": nothing}


def foretold_share(counts: Mapping[int, Counter[bool]]) -> float:
    """Share of what is counted that has its group's most frequent value; 0 for nothing.

    counts: by number of steps, how many plans have enough (True) and how many ask on.
    """
    total = sum(count.total() for count in counts.values())
    return sum(max(count.values()) for count in counts.values()) / max(total, 1)
