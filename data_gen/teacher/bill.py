"""What a run asked and what it took, by stage."""

from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import Any

from data_gen.teacher.calls import Answer
from data_gen.teacher.spending import Amount


@dataclass
class StageBill:
    """Counts of one stage.

    calls: answered now. known: answered from the journal. attempts: requests sent. retried:
    attempts that failed and were made again. failed: calls without an answer in the end.
    at_most_lost: the most that attempts which broke off may have cost, beside `cost`.
    """

    calls: int = 0
    known: int = 0
    attempts: int = 0
    retried: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    at_most_lost: float = 0.0

    def answered(self, answer: Answer) -> None:
        """Count an answer that came now."""
        self.calls += 1
        self.input_tokens += answer.input_tokens
        self.output_tokens += answer.output_tokens
        self.cost += answer.cost

    def broke_off(self, most: Amount) -> None:
        """Count an attempt that may have been billed for nothing."""
        self.at_most_lost += most.cost


@dataclass
class Bill:
    """The bills of a run's stages."""

    stages: dict[str, StageBill] = field(default_factory=lambda: defaultdict(StageBill))

    @property
    def cost(self) -> float:
        """What the answers of this run cost."""
        return sum(stage.cost for stage in self.stages.values())

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Columns and one row a stage."""
        names = [item.name for item in fields(StageBill)]
        rows = [[name, *vars(bill).values()] for name, bill in self.stages.items()]
        return ["stage", *(name.replace("_", " ") for name in names)], rows

    def as_dict(self) -> dict[str, Any]:
        """The counts by stage."""
        return {name: dict(vars(bill)) for name, bill in self.stages.items()}
