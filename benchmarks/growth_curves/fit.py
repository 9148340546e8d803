"""Exponents of measured curves: how seconds grow with a size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# Sizes that a curve's exponent is taken from at least; what is fixed shows in the smaller ones.
LEAST_POINTS = 3
# What noise may add to an exponent before it counts as above what is possible.
TOLERANCE = 0.15


class Point(NamedTuple):
    """Seconds of one size; of several runs, the least."""

    size: int
    seconds: float


@dataclass(frozen=True)
class Curve:
    """One way in which a cost grows.

    Attributes:
        unit: of the sizes.
        possible: the exponent that the work needs: 1 where it is linear, 0 where it is fixed.
        first: the smallest size; the others double it, unless `sizes` names them.
        prepare: opens what all sizes share and returns what does the work of one size, and
            returns its seconds.
        most: the largest size; None: until a point takes too long.
        sizes: all of them, where they cannot double, or each is needed whatever it takes.
    """

    unit: str
    possible: float
    first: int
    prepare: Callable[[str], Callable[[int], float]]
    most: int | None = None
    sizes: tuple[int, ...] = ()


def measure(
    curve: Curve, backbone: str, point_seconds: float, most_points: int, repeats: int
) -> list[Point]:
    """Return the points of a curve, sizes doubled until one takes `point_seconds`, or the named.

    backbone: of the curves that need one. repeats: runs of a size, of which the least counts.
    """
    run = curve.prepare(backbone)
    points: list[Point] = []
    sizes = curve.sizes or tuple(curve.first * 2**power for power in range(most_points))
    for size in sizes:
        if curve.most is not None and size > curve.most:
            break
        points.append(Point(size, min(run(size) for _ in range(repeats))))
        if not curve.sizes and points[-1].seconds > point_seconds:
            break
    return points


def exponent(points: Sequence[Point]) -> float | None:
    """Return the slope of log seconds over log size, of the upper half of the sizes.

    By least squares over at least three points; None where there are fewer.
    """
    if len(points) < LEAST_POINTS:
        return None
    upper = points[-max(LEAST_POINTS, (len(points) + 1) // 2) :]
    sizes, seconds = (np.log([getattr(p, name) for p in upper]) for name in ("size", "seconds"))
    return float(np.polyfit(sizes, seconds, 1)[0])


def is_above(found: float | None, possible: float) -> bool:
    """Return whether an exponent is above what the work needs by more than noise."""
    return found is not None and found > possible + TOLERANCE
