"""A rollout's folder: lines in order at the end, a cut one dropped, none taken twice."""

import json
from pathlib import Path

import pytest

from common.errors import RecordError
from inference.rollouts.log import RolloutLog
from inference.runs.log import EvaluationLogError
from models.formats.model_calls import ModelCall
from models.formats.records import read_records
from models.formats.trajectories import Trajectory

VERSIONS = {None: "tiny", "ras": "v1"}
KEYS = [("q1", 0), ("q1", 1), ("q2", 0)]


def made(name: str, number: int, version: str = "v1") -> Trajectory:
    calls = [ModelCall("ras", version, "greedy", f"answer {number} of {name} é")]
    return Trajectory(name, "", number, "Who?", 0, 1.0, calls, [], "Ana")


def opened(folder: Path, resume: bool = False, **settings: object) -> RolloutLog:
    return RolloutLog(folder, {"seed": 0, **settings}, VERSIONS, resume)


def written(folder: Path) -> list[Trajectory]:
    return list(read_records(folder / "trajectories.jsonl", Trajectory))


def test_lines_stand_in_the_order_of_the_questions(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for name, number in reversed(KEYS):
        log.append(made(name, number))
    assert log.read(("q1", 1)) == made("q1", 1) and ("q3", 0) not in log
    log.finish(KEYS, {"n": 3})
    assert written(tmp_path) == [made(*key) for key in KEYS]
    assert json.loads((tmp_path / "results.json").read_text()) == {"n": 3}


def test_a_run_goes_on_behind_its_last_whole_line(tmp_path: Path) -> None:
    opened(tmp_path).append(made("q2", 0))
    with (tmp_path / "progress.jsonl").open("a") as handle:
        handle.write('{"id": "q1", "num')
    log = opened(tmp_path, resume=True)
    assert [key in log for key in KEYS] == [False, False, True]
    for key in KEYS[:2]:
        log.append(made(*key))
    log.finish(KEYS, {})
    assert written(tmp_path) == [made(*key) for key in KEYS]
    # More of them, behind those of a run that was whole.
    log = opened(tmp_path, resume=True)
    log.append(made("q3", 0))
    assert log.read(("q1", 0)) == made("q1", 0) and log.read(("q3", 0)) == made("q3", 0)


def test_a_kill_between_the_last_two_steps_doubles_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(made("q1", 0))
    progress = (tmp_path / "progress.jsonl").read_bytes()
    log.finish(KEYS[:1], {})
    (tmp_path / "progress.jsonl").write_bytes(progress)
    log = opened(tmp_path, resume=True)
    log.finish(KEYS[:1], {})
    assert written(tmp_path) == [made("q1", 0)]


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationLogError, match="holds no rollout to go on with"):
        opened(tmp_path, resume=True)
    opened(tmp_path).append(made("q1", 0))
    with pytest.raises(EvaluationLogError, match="holds a rollout: go on with --resume"):
        opened(tmp_path)
    with pytest.raises(EvaluationLogError, match="begun with seed = 0, and 1 is given"):
        opened(tmp_path, resume=True, seed=1)
    log = opened(tmp_path, resume=True)
    log.append(made("q1", 1, version="v0"))
    with pytest.raises(EvaluationLogError, match=r"progress.jsonl:2: ras was 'v0', and 'v1' is"):
        opened(tmp_path, resume=True)


def test_a_trajectory_that_is_there_twice_is_named(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(made("q1", 0))
    log.append(Trajectory("q1", "", 0, "Who?", 0, 1.0, [], [], "Ben"))
    with pytest.raises(RecordError, match=r"progress.jsonl:2: .* 0 of 'q1' is there twice"):
        opened(tmp_path, resume=True)
