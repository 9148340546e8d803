"""The benchmark of saves reports stall, steps and whole run, and chooses by the whole run."""

from typing import Any

import pytest
from pytest import approx

from benchmarks.save_stall import compare, figures_of
from tests.benchmarks.commands import last_json, run_benchmark


def way(saves: int, *seconds: float) -> dict[str, Any]:
    """Figures of runs that took so long."""
    return figures_of(
        [{"steps": [1.0, 3.0], "saves": [0.5] * saves, "seconds": s} for s in seconds]
    )


@pytest.mark.parametrize(
    ("background", "chosen"), [((21.0, 22.0, 23.0), "background"), ((21.0, 22.0, 25.0), "in_step")]
)
def test_the_thread_is_chosen_where_the_whole_run_is_faster_in_every_round(
    background: tuple[float, ...], chosen: str
) -> None:
    ways = {
        "none": way(0, 20.0, 20.0, 20.0),
        "in_step": way(2, 24.0, 24.0, 24.0),
        "background": way(2, *background),
    }
    assert ways["none"]["stall_seconds"] is None
    found = compare(ways, 60)
    assert found["chosen"] == chosen
    assert found["ratio_background_vs_in_step"] == approx(22 / 24)
    assert found["save_cost_seconds_in_step"] == approx(2.0)
    assert found["save_cost_seconds_background"] == approx(1.0)
    assert found["save_cost_share_at_interval_in_step"] == approx(2.0 / (60 * 2.0))


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_command_measures_every_way_in_turn() -> None:
    done = run_benchmark(
        "save_stall.py", "--steps", "8", "--every", "2", "--layers", "2", "--rounds", "2",
        "--width", "256",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    report = last_json(done)
    none, background, in_step = report["none"], report["background"], report["in_step"]
    assert (none["saves"], background["saves"], in_step["saves"]) == (0, 4, 4)
    for figures in (none, background, in_step):
        assert len(figures["seconds_by_round"]) == 2
        assert 0 < figures["step_seconds"] < figures["seconds_min"] <= figures["seconds_max"]
    # A copy to memory is less than a copy and the writing of it.
    assert 0 < background["stall_seconds"] < in_step["stall_seconds"]
    assert report["interval"] == 60 and report["chosen"] in ("in_step", "background")
