"""Counts that keep the order in which names first came up, also when put together of parts."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

Place = tuple[int, ...]


class PlacedCounts(Counter[str]):
    """A Counter that notes where in the build each name first came up.

    `place` is set to where the build is before it counts. Places compare as tuples do, so that the
    names of several shards come out in the order in which one build of everything meets them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place: Place = ()
        self.first: dict[str, Place] = {}

    def __setitem__(self, name: str, number: int) -> None:
        # Names that come up at one place keep their order: an own one has been counted before.
        self.first.setdefault(name, (*self.place, len(self.first)))
        super().__setitem__(name, number)

    def count(self, name: str, number: int, *place: int) -> None:
        """Add `number` to a name at a place."""
        self.place = place
        self[name] += number

    def ordered(self) -> dict[str, int]:
        """Names and numbers in the order of the names' first places."""
        return {name: self[name] for name in sorted(self, key=lambda name: self.first[name])}

    def to_json(self) -> list[list[Any]]:
        """A row a name: name, number, first place."""
        return [[name, self[name], list(self.first[name])] for name in self]

    def take(self, rows: Iterable[list[Any]]) -> None:
        """Add what `to_json` of another one gave."""
        for name, number, first in rows:
            place = min(tuple(first), self.first.get(name, tuple(first)))
            self[name] += number
            self.first[name] = place
