"""Sub-queries that ask again what their own history has asked."""

from data_gen.audits.findings import Choice, Example, Finding, Reservoir, Severity, graded
from data_gen.audits.table import Seen
from data_gen.wording import wording
from models.formats.plan import PlanAction, parse_plan
from models.formats.records import RasSample


def asked_by(sample: RasSample) -> str:
    """The sub-query that a plan's label asks; empty for answers and other plans."""
    plan = parse_plan(sample.label).plan if sample.task == "plan" else None
    return plan.subquery if plan is not None and plan.action is PlanAction.SUBQ else ""


def repeated_step(sample: RasSample) -> int | None:
    """The position of the step that the label's sub-query repeats in its words; None for none."""
    asked = wording(asked_by(sample))
    steps = [wording(step.subquery) for step in sample.history]
    return steps.index(asked) if asked and asked in steps else None


def history_repeats(sample: RasSample) -> bool:
    """Whether two steps of the history ask the same in their words."""
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
        """What was found."""
        again, twice = self._asked_again, self._twice
        return [
            Finding(
                "repeated_subquery",
                graded(Severity.ERROR, again.seen),
                again.seen,
                self._plans,
                "plans that ask on",
                "ask what their history has asked before: a planner learns to go round in circles",
                "leave out the step, or label the state [SUFFICIENT]",
                again.examples(),
            ),
            Finding(
                "history_repeats",
                graded(Severity.WARNING, twice.seen),
                twice.seen,
                self._histories,
                "samples with a history",
                "show a history that asks the same twice",
                "keep each sub-query of a question once (data_gen/solving_steps.py)",
                twice.examples(),
            ),
        ]
