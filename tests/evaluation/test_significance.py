"""Bootstrap: parity with SciPy, coverage, invariances, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evaluation.significance import bootstrap_interval, holm, paired_bootstrap

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def test_interval_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).random(200)
    ours = bootstrap_interval(values, seed=3)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=5000, method="percentile", rng=np.random.default_rng(4)
    ).confidence_interval
    assert ours.mean == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=3e-3)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    intervals = [bootstrap_interval(rng.random(100), resamples=500) for _ in range(200)]
    covered = np.mean([interval.low <= 0.5 <= interval.high for interval in intervals])
    assert 0.88 <= covered <= 0.99


def test_the_p_value_is_uniform_when_nothing_differs() -> None:
    rng = np.random.default_rng(11)
    p_values = [
        paired_bootstrap(rng.random(80), rng.random(80), resamples=400).p_value for _ in range(200)
    ]
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.11
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.08)


def test_pairing_finds_what_separate_intervals_hide() -> None:
    rng = np.random.default_rng(5)
    baseline = rng.random(100)
    candidate = np.clip(baseline + 0.03 + rng.normal(0, 0.02, 100), 0, 1)
    first, second = bootstrap_interval(baseline), bootstrap_interval(candidate)
    assert first.high > second.low
    difference = paired_bootstrap(baseline, candidate)
    assert difference.low > 0
    assert difference.p_value == pytest.approx(1 / 5001)


@settings(max_examples=30)
@given(SCORES)
def test_a_run_does_not_differ_from_itself(values: list[float]) -> None:
    result = paired_bootstrap(values, values, resamples=50)
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


@settings(max_examples=30)
@given(SCORES, st.integers(0, 5))
def test_swapping_the_runs_negates_the_difference(values: list[float], seed: int) -> None:
    other = [1 - value for value in values]
    forth = paired_bootstrap(values, other, resamples=100, seed=seed)
    back = paired_bootstrap(other, values, resamples=100, seed=seed)
    assert forth.difference == pytest.approx(-back.difference)
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))
    assert forth.p_value == pytest.approx(back.p_value)


@settings(max_examples=30)
@given(SCORES)
def test_bounds_hold_and_the_seed_decides(values: list[float]) -> None:
    interval = bootstrap_interval(values, resamples=100, seed=2)
    assert min(values) - 1e-12 <= interval.low <= interval.high <= max(values) + 1e-12
    assert interval == bootstrap_interval(values, resamples=100, seed=2)


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random(30)
    whole = bootstrap_interval(values, resamples=101)
    monkeypatch.setattr("evaluation.significance._MAX_DRAWN", 300)
    assert bootstrap_interval(values, resamples=101) == whole


@pytest.mark.parametrize("values", [[], [[0.1]], [float("nan")], [float("inf"), 1.0]])
def test_bad_scores_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="bootstrap needs"):
        bootstrap_interval(values)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="resamples"):
        bootstrap_interval([1.0], resamples=0)
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_interval([1.0], confidence=1.0)
    with pytest.raises(ValueError, match="differ in length: 1 and 2"):
        paired_bootstrap([1.0], [1.0, 0.0])


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_adjusts_step_by_step(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    by_p = sorted(zip(p_values, adjusted, strict=True))
    assert [q for _, q in by_p] == sorted(adjusted)
    # Rejecting q <= level is Holm's procedure: stop at the first p above level / (those left).
    for level in (0.01, 0.05, 0.3):
        rejected = 0
        for left, (p, _) in zip(range(len(by_p), 0, -1), by_p, strict=True):
            if p * left > level:
                break
            rejected += 1
        assert sum(q <= level for q in adjusted) == rejected


def test_holm_on_an_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
