"""The benchmark of saves runs, and the step waits less where a thread writes."""

import pytest

from tests.benchmarks.commands import last_json, run_benchmark


@pytest.mark.slow
def test_a_write_beside_the_step_stalls_it_less_than_one_in_it() -> None:
    done = run_benchmark("save_stall.py", "--steps", "8", "--every", "2", "--layers", "2")
    report = last_json(done)
    background, in_step = report["background"], report["in_step"]
    assert background["saves"] == in_step["saves"] == 4
    assert 0 < background["stall_seconds"] < in_step["stall_seconds"]
