"""The findings of an audit: the share of faulty data, the severity, and samples to read."""

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """The severity of a finding; `OK` where a check found nothing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"


class Place(NamedTuple):
    """A record's place: the position of its file among the audited ones, and its line from 1."""

    file: int
    line: int


@dataclass(frozen=True)
class Example:
    """Records that show a finding, and what to look at in them."""

    places: tuple[Place, ...]
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check: `count` of `of` things, counted in `unit`, have the fault `what`.

    The remedy says what to do about it. docs/audit.md explains each by its name.
    """

    name: str
    severity: Severity
    count: int
    of: int
    unit: str
    what: str
    remedy: str
    examples: list[Example] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """`count` as a share of `of`; 0 where there is nothing to count."""
        return self.count / self.of if self.of else 0.0


def graded(severity: Severity, count: int) -> Severity:
    """Return the severity where anything was found, else OK."""
    return severity if count else Severity.OK


@dataclass(frozen=True)
class Choice:
    """The number of examples of a finding, and the seed that they are drawn by."""

    size: int = 3
    seed: int = 0


class Reservoir:
    """A few examples of a stream, each with the same chance; the same ones for one seed."""

    def __init__(self, choice: Choice, name: str) -> None:
        self.name, self.size = name, choice.size
        self.seen = 0
        self._random = random.Random(f"{choice.seed}/{name}")
        self._kept: list[Example] = []

    def offer(self, example: Example) -> None:
        """Take in one example (Vitter's algorithm R)."""
        self.seen += 1
        if len(self._kept) < self.size:
            self._kept.append(example)
        elif (position := self._random.randrange(self.seen)) < self.size:
            self._kept[position] = example

    def examples(self) -> list[Example]:
        """Return the kept ones in the order of their places."""
        return sorted(self._kept, key=lambda example: example.places)

    def finding(self, severity: Severity, of: int, unit: str, what: str, remedy: str) -> Finding:
        """Return the finding of which all examples were offered, among `of` things."""
        severity = graded(severity, self.seen)
        return Finding(self.name, severity, self.seen, of, unit, what, remedy, self.examples())
