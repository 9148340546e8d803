"""A rollout that is killed goes on: nothing written is lost, and no line is there twice."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import processes
from tests.inference.rollout_material import QUESTIONS, decided, trajectories, write_material
from tests.processes import ROOT

# Killed as a line is being written: the next one is cut.
KILLED = """
import os, signal, sys
import inference.rollout
from inference.rollouts.log import PROGRESS_FILE, RolloutLog
left, whole = [int(sys.argv.pop(1))], RolloutLog.append
def append(log, trajectory):
    whole(log, trajectory)
    left[0] -= 1
    if not left[0]:
        with (log.folder / PROGRESS_FILE).open("a") as handle:
            handle.write('{"id": "q2", "number": 1, "cal')
            handle.flush()
            os.kill(os.getpid(), signal.SIGKILL)
RolloutLog.append = append
inference.rollout.main()
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_rollout_goes_on(tmp_path: Path) -> None:
    options = write_material(tmp_path)
    (tmp_path / "killed.py").write_text(KILLED)
    environment = {**os.environ, "TRIVIUM_CACHE": str(tmp_path / "cache")}

    def run(program: Path, *given: object) -> "subprocess.CompletedProcess[str]":
        return processes.run(
            program, *given, *options, "--max-rounds", 1, cwd=tmp_path, env=environment
        )

    command, out = ROOT / "inference" / "rollout.py", tmp_path / "out"
    killed = run(tmp_path / "killed.py", 2, "--out", "out", "--concurrency", 2)
    assert killed.returncode == -signal.SIGKILL
    progress = (out / "progress.jsonl").read_bytes()
    assert progress.count(b"\n") == 2 and not progress.endswith(b"\n")
    written = set(progress.splitlines(keepends=True)[:2])
    # Killed once more, and then to the end; with another concurrency.
    assert run(tmp_path / "killed.py", 1, "--out", "out", "--resume").returncode < 0
    done = run(command, "--out", "out", "--resume", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert (results["trajectories"], results["provenance"]["made_earlier"]) == (6, 3)
    assert "Parts of the reward" in done.stdout and not (out / "progress.jsonl").exists()
    lines = (out / "trajectories.jsonl").read_bytes().splitlines(keepends=True)
    assert written <= set(lines)
    made = trajectories(out)
    assert [each.key for each in made] == [(q.id, n) for q in QUESTIONS for n in range(2)]
    assert run(command, "--out", "whole").returncode == 0
    assert list(map(decided, trajectories(tmp_path / "whole"))) == list(map(decided, made))
