"""Distributions of whole numbers that are counted and not kept: exact, however many there are."""

from collections import Counter
from collections.abc import Iterable


class Spread:
    """Counts numbers by their value; as large as there are different values."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, values: Iterable[int]) -> None:
        """Take in numbers."""
        self._counts.update(values)

    def above(self, limit: int) -> int:
        """How many numbers are larger than the limit."""
        return sum(count for value, count in self._counts.items() if value > limit)

    def figures(self) -> dict[str, float]:
        """Count, minimum, mean, median, 90th percentile and maximum, as in `card.spread`."""
        total = self._counts.total()
        if not total:
            return {}
        mean = sum(value * count for value, count in self._counts.items()) / total
        middle = (self._at((total - 1) // 2) + self._at(total // 2)) / 2
        return {
            "count": total,
            "min": min(self._counts),
            "mean": round(mean, 1),
            "median": middle,
            "p90": self._at(int(0.9 * (total - 1))),
            "max": max(self._counts),
        }

    def _at(self, position: int) -> int:
        """The number at a position from 0 of the ascending order."""
        for value in sorted(self._counts):
            position -= self._counts[value]
            if position < 0:
                return value
        raise IndexError("position past the last number")
