"""benchmarks/rollouts.py on tiny components."""

from pathlib import Path

import pytest

from tests.benchmarks.commands import last_json, run_benchmark
from tests.inference.rollout_material import write_material


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_rollout_is_whole_and_the_same(tmp_path: Path) -> None:
    options = write_material(tmp_path)
    place = options.index("--engine")
    del options[place : place + 2]
    given = ("--engines", "transformers", "--kills", "2", "--threads", "1")
    done = run_benchmark("rollouts.py", *given, "--", *options, "--max-rounds", "1")
    assert done.returncode == 0, done.stderr
    found = last_json(done)["engines"]["transformers"]
    assert (found["trajectories"], found["killed"], found["errors"]) == (6, 2, 0)
    assert (found["missing"], found["doubled"], found["lost_lines"]) == (0, 0, 0)
    assert found["same"] == 6
    assert found["trajectories_per_hour"] == pytest.approx(6 * 3600 / found["rollout_seconds"])


def test_a_rollout_that_fails_says_why(tmp_path: Path) -> None:
    given = ("--engines", "transformers", "--dir", str(tmp_path))
    done = run_benchmark("rollouts.py", *given, "--", "--dataset", "none.jsonl", "--corpus", "c")
    assert done.returncode == 1 and "none.jsonl" in done.stderr.splitlines()[-1]


def test_a_rollout_that_is_there_is_not_measured_again(tmp_path: Path) -> None:
    (tmp_path / "transformers-whole").mkdir()
    given = ("--engines", "transformers", "--dir", str(tmp_path))
    done = run_benchmark("rollouts.py", *given, "--", "--dataset", "none.jsonl", "--corpus", "c")
    assert done.returncode == 1 and "name another --dir" in done.stderr.splitlines()[-1]
