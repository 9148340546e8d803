"""Figures counted as samples pass by: sizes, token counts, the most frequent names."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from data_gen.streaming.groups import open_table

Place = tuple[int, ...]
CountTokens = Callable[[Sequence[str]], list[int]]
_BATCH = 256


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
        """Return the names and numbers in the order of the names' first places."""
        return {name: self[name] for name in sorted(self, key=lambda name: self.first[name])}

    def to_json(self) -> list[list[Any]]:
        """Return a row a name: name, number, first place."""
        return [[name, self[name], list(self.first[name])] for name in self]

    def take(self, rows: Iterable[list[Any]]) -> None:
        """Add what `to_json` of another one gave."""
        for name, number, first in rows:
            place = min(tuple(first), self.first.get(name, tuple(first)))
            self[name] += number
            self.first[name] = place


def spread_of(counts: Mapping[int, int]) -> dict[str, float]:
    """Return minimum, mean, median, 90th percentile and maximum of values; empty for none."""
    total = sum(counts.values())
    if not total:
        return {}
    mean = sum(value * count for value, count in counts.items()) / total
    middle = [_value_at(counts, (total - 1) // 2), _value_at(counts, total // 2)]
    return {
        "min": min(counts),
        "mean": round(mean, 1),
        "median": middle[0] if total % 2 else sum(middle) / 2,
        "p90": _value_at(counts, int(0.9 * (total - 1))),
        "max": max(counts),
    }


def _value_at(counts: Mapping[int, int], position: int) -> int:
    """Return the value at a position, from 0, of all values in order."""
    passed = 0
    for value in sorted(counts):
        passed += counts[value]
        if position < passed:
            return value
    raise IndexError(position)


class TokenSpread:
    """Lengths of texts in tokens, counted in batches."""

    def __init__(self, count_tokens: CountTokens) -> None:
        self._count_tokens = count_tokens
        self._waiting: list[str] = []
        self._lengths: Counter[int] = Counter()

    def add(self, text: str) -> None:
        """Take in one text."""
        self._waiting.append(text)
        if len(self._waiting) >= _BATCH:
            self._flush()

    def figures(self) -> dict[str, float]:
        """Return the spread of all lengths."""
        self._flush()
        return spread_of(self._lengths)

    def _flush(self) -> None:
        self._lengths.update(self._count_tokens(self._waiting))
        self._waiting = []


class NameTally:
    """Counts of names, of which there may be any number.

    Up to `held` names are counted in memory, the rest in an SQLite file that starts in memory too.
    """

    def __init__(self, held: int = 100_000) -> None:
        self._held = held
        self._counts: dict[str, list[int]] = {}
        self._order = 0
        self._table: sqlite3.Connection | None = None

    def add(self, name: str) -> None:
        """Count one more of a name."""
        found = self._counts.get(name)
        if found is not None:
            found[0] += 1
            return
        self._counts[name] = [1, self._order]
        self._order += 1
        if len(self._counts) >= self._held:
            self._move_to_table()

    def most_common(self, limit: int) -> dict[str, int]:
        """Return the most frequent names, of equally frequent ones those that came first."""
        if self._table is None:
            ranked = sorted(self._counts.items(), key=lambda item: (-item[1][0], item[1][1]))
            return {name: count for name, (count, _) in ranked[:limit]}
        self._move_to_table()
        rows = self._table.execute(
            "SELECT name, count FROM names ORDER BY count DESC, first LIMIT ?", (limit,)
        )
        return {name.decode("utf-8", "surrogatepass"): count for name, count in rows}

    def _move_to_table(self) -> None:
        if self._table is None:
            self._table = open_table(
                "CREATE TABLE names (name BLOB PRIMARY KEY, count INTEGER, first INTEGER)"
                " WITHOUT ROWID"
            )
        self._table.executemany(
            "INSERT INTO names VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET count = count + excluded.count",
            (
                (name.encode("utf-8", "surrogatepass"), count, first)
                for name, (count, first) in self._counts.items()
            ),
        )
        self._counts = {}
