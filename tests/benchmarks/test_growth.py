"""The growth of costs: exponents of known curves, and the command on small sizes."""

import pytest

from benchmarks.growth import rows
from benchmarks.growth_curves.fit import Curve, Point, exponent, is_above, measure
from benchmarks.growth_curves.worker import CURVES
from tests.benchmarks.commands import last_json, run_benchmark


def points_of(power: float, fixed: float = 0.0) -> list[Point]:
    return [Point(size, fixed + 1e-4 * size**power) for size in (1, 2, 4, 8, 16, 32, 64)]


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_the_exponent_of_a_power_is_that_power(power: float) -> None:
    assert exponent(points_of(power)) == pytest.approx(power, abs=1e-9)


def test_what_is_fixed_counts_little_in_the_larger_half() -> None:
    found = exponent(points_of(2.0, fixed=1e-3))
    assert found == pytest.approx(2.0, abs=0.12)
    assert is_above(found, 1) and not is_above(found, 2)


def test_too_few_sizes_have_no_exponent_and_are_not_above() -> None:
    assert exponent(points_of(2.0)[:2]) is None
    assert not is_above(None, 1)


def test_sizes_double_until_one_takes_too_long_and_the_least_run_counts() -> None:
    runs: list[int] = []

    def seconds(size: int) -> float:
        runs.append(size)
        return size / 10 + (0.05 if len(runs) % 2 else 0.0)

    curve = Curve("things", 1, 3, lambda backbone: seconds)
    found = measure(curve, "none", point_seconds=2.0, most_points=9, repeats=2)
    assert [point.size for point in found] == [3, 6, 12, 24]
    assert [point.seconds for point in found] == pytest.approx([0.3, 0.6, 1.2, 2.4])
    assert runs == [3, 3, 6, 6, 12, 12, 24, 24]


def test_no_size_is_above_the_most_and_named_sizes_stand() -> None:
    capped = Curve("things", 1, 1, lambda backbone: float, most=4)
    assert [p.size for p in measure(capped, "", 99.0, 9, 1)] == [1, 2, 4]
    named = Curve("things", 1, 1, lambda backbone: float, sizes=(1, 2, 3))
    assert [p.size for p in measure(named, "", 0.5, 9, 1)] == [1, 2, 3]


def test_work_that_grows_too_fast_is_found() -> None:
    def seconds_of_pairs(size: int) -> float:
        # Compared values are counted, a microsecond each: a clock would measure the neighbours too.
        compared = 0
        for one in range(size):
            for other in range(size):
                compared += one != other
        return compared * 1e-6

    curve = Curve("things", 1, 100, lambda backbone: seconds_of_pairs)
    points = measure(curve, "", point_seconds=0.2, most_points=5, repeats=2)
    assert [point.size for point in points] == [100, 200, 400, 800]
    assert is_above(exponent(points), 1) and not is_above(exponent(points), 2)


def test_every_curve_of_a_model_runs(backbone: str) -> None:
    for name, curve in CURVES.items():
        if curve.unit != "passages" and name.startswith(("training", "graph", "engine")):
            assert measure(curve, backbone, 60.0, 1, 1)[0].seconds > 0, name


def test_failed_curves_stand_in_the_table() -> None:
    [row] = rows({"one": {"status": "timed out"}})
    assert row[0] == "one" and row[-1] == "timed out"


@pytest.mark.exhaustive
def test_the_command() -> None:
    names = ["ras, hops", "BM25 index, corpus"]
    done = run_benchmark(
        "growth.py", "--curves", *names, "--points", "3", "--repeats", "1", "--point-seconds", "9"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    curves = last_json(done)["curves"]
    assert list(curves) == names
    assert [point["size"] for point in curves["BM25 index, corpus"]["points"]] == [500, 1000, 2000]
    assert {curve["status"] for curve in curves.values()} == {"ok"}
    assert curves["BM25 index, corpus"]["exponent"] < 2


def test_a_number_that_measures_nothing_is_refused() -> None:
    done = run_benchmark("growth.py", "--points", "0")
    assert done.returncode == 2 and "--points" in done.stderr
