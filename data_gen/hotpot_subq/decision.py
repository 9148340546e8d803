"""What a stage decided about one question, and the counts of all of them."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from data_gen.teacher.calls import Asker
from models.formats.records import QuestionRecord


@dataclass(frozen=True)
class Decision:
    """A question as a stage leaves it.

    outcome: one of the stage's own words; each question has exactly one. kept: the next stage
    gets it. failed: the teacher gave no answer, so that another run may decide otherwise. notes:
    what else befell it, any number. prediction: a base model's answer, if asked.
    """

    record: QuestionRecord
    outcome: str
    kept: bool = False
    failed: bool = False
    notes: tuple[str, ...] = ()
    prediction: str | None = None


Decide = Callable[[QuestionRecord, Asker], Awaitable[Decision]]


@dataclass
class DecisionCounts:
    """How many questions had which outcome."""

    kept: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    def take(self, decision: Decision) -> None:
        """Count one question."""
        counter = self.kept if decision.kept else self.left_out
        (self.failed if decision.failed else counter)[decision.outcome] += 1
        self.notes.update(decision.notes)

    def check(self, read: int) -> None:
        """Raise ValueError unless every question that was read has one outcome."""
        counted = self.kept.total() + self.left_out.total() + self.failed.total()
        if counted != read:
            raise ValueError(f"{read} questions were read and {counted} have an outcome")

    def as_dict(self) -> dict[str, Any]:
        """The counts by outcome, sorted by name."""
        return {
            "questions": self.kept.total() + self.left_out.total() + self.failed.total(),
            **{name: dict(sorted(counter.items())) for name, counter in vars(self).items()},
        }

    def rows(self) -> list[list[Any]]:
        """Rows of a table: kind, outcome, questions."""
        counters = vars(self).items()
        return [[kind, name, n] for kind, c in counters for name, n in sorted(c.items())]
