"""Bootstrap intervals, p-values of several comparisons, and scores by question type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DEFAULT_RESAMPLES = 5000
# Bounds the memory of one draw of indices to about 32 MB.
_MAX_DRAWN = 4_000_000
UNTYPED = "(none)"
COLUMNS = ("type", "questions", "EM", "F1")


@dataclass(frozen=True)
class Interval:
    """A mean with the bounds of its percentile bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedDifference:
    """Mean of candidate minus baseline, its interval and the two-sided p-value of no difference."""

    difference: float
    low: float
    high: float
    p_value: float


def bootstrap_interval(
    values: Sequence[float] | np.ndarray,
    resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the mean of one score a question with its percentile bootstrap interval.

    Raises ValueError if there are no values, one is not finite, or an option is out of range.
    """
    scores = _checked(values, resamples, confidence)
    low, high = _bounds(_resampled_means(scores, resamples, seed), confidence)
    return Interval(float(scores.mean()), low, high)


def paired_bootstrap(
    baseline: Sequence[float] | np.ndarray,
    candidate: Sequence[float] | np.ndarray,
    resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairedDifference:
    """Compare two runs whose scores stand in the same order of questions.

    The p-value is the share of resampled means that, moved to a true difference of zero, lie at
    least as far from zero as the one observed; the observation itself counts as one resample, so
    it is never 0 and not below 1 / (resamples + 1).

    Raises ValueError if the lengths differ, and as `bootstrap_interval` does.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"paired runs differ in length: {len(baseline)} and {len(candidate)}")
    first = _checked(baseline, resamples, confidence)
    differences = _checked(candidate, resamples, confidence) - first
    means = _resampled_means(differences, resamples, seed)
    observed = float(differences.mean())
    low, high = _bounds(means, confidence)
    # The tolerance keeps sums that differ by rounding alone from counting as different.
    as_extreme = np.abs(means - observed) >= abs(observed) - 1e-12
    p_value = (1 + int(as_extreme.sum())) / (1 + resamples)
    return PairedDifference(observed, low, high, p_value)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values of several comparisons, adjusted to err as one together (Holm 1979).

    The i-th smallest of m, from 1, is multiplied by m - i + 1; none is smaller than one before it,
    and none is above 1. The order given is kept.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def _checked(values: Sequence[float] | np.ndarray, resamples: int, confidence: float) -> np.ndarray:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise ValueError("a bootstrap needs a flat list with at least one score")
    if not np.isfinite(scores).all():
        raise ValueError("a bootstrap needs finite scores")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    return scores


def _resampled_means(scores: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return the means of ``resamples`` draws with replacement, [resamples]."""
    rng, at_once = np.random.default_rng(seed), max(1, _MAX_DRAWN // scores.size)
    means = []
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = rng.integers(scores.size, size=(rows, scores.size))
        means.append(scores[drawn].mean(axis=1))
    return np.concatenate(means)


def _bounds(means: np.ndarray, confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def type_name(name: str) -> str:
    """Return the name of a type in tables and results; `(none)` for a question without one."""
    return name or UNTYPED


def places_by_type(types: Sequence[str]) -> dict[str, list[int]]:
    """Return places of each type's questions, the types in the order in which they first come."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(types):
        places.setdefault(type_name(name), []).append(place)
    return places


def scores_by_type(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return `{type: {n, em, f1}}` of scored traces, means in 0 to 1."""
    places = places_by_type([row.get("type") or "" for row in rows])
    return {
        name: {
            "n": len(own),
            "em": sum(rows[place]["em"] for place in own) / len(own),
            "f1": sum(rows[place]["f1"] for place in own) / len(own),
        }
        for name, own in places.items()
    }


def type_rows(by_type: Mapping[str, Mapping[str, float]]) -> list[list[Any]]:
    """Return a row for each of `COLUMNS` a type."""
    return [[name, own["n"], own["em"], own["f1"]] for name, own in by_type.items()]
