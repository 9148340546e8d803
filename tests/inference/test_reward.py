"""reward.py: trajectories judged anew, and what of their questions does not fit them."""

from dataclasses import replace
from pathlib import Path

import pytest

import inference.reward
from models.formats.model_calls import ModelCall
from models.formats.records import write_records
from models.formats.trajectories import Trajectory, TrajectoryStep
from tests.inference.rollout_material import QUESTIONS, trajectories
from tests.run_main import Run, json_runner, run_main

READ = ModelCall("read", "v", "cache", "")


def drawn(place: int, number: int, answer: str, *calls: ModelCall) -> Trajectory:
    record = QUESTIONS[place]
    steps = [TrajectoryStep("Who?", [("0", "Film0")])]
    return Trajectory(
        record.id, "who", number, record.question, 0, 1.0, list(calls), steps, answer,
        em=0.0, f1=0.0, reward=-9.0, rollout="before",
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    made = [drawn(0, 0, "Ana0", READ, READ), drawn(0, 1, "Ana0"), drawn(1, 0, "x")]
    write_records(tmp_path / "trajectories.jsonl", made)
    write_records(tmp_path / "questions.jsonl", QUESTIONS)
    given = ("--trajectories", "trajectories.jsonl", "--dataset", "questions.jsonl")
    return json_runner(monkeypatch, capsys, tmp_path, *given, "--out", "trajectories.jsonl")


def test_rewards_are_those_of_the_new_weights(run: Run) -> None:
    before = trajectories(Path())
    results = run(inference.reward.main, "--weights", "recall=0.5", "undrawn=0.1")
    made = trajectories(Path())
    assert [each.reward for each in made] == pytest.approx([1.3, 1.5, 0.0])
    assert [(each.f1, each.em) for each in made] == [(1.0, 1.0), (1.0, 1.0), (0.0, 0.0)]
    assert (results["questions"], results["trajectories"], results["mixed_groups"]) == (2, 3, 1)
    # Nothing else has changed, and no line of another reward fits.
    assert len({each.rollout for each in made}) == 1 and made[0].rollout != "before"
    judged = {"em": 0.0, "f1": 0.0, "reward": -9.0, "reward_parts": {}, "rollout": "before"}
    assert [replace(each, **judged) for each in made] == before
    again = run(inference.reward.main, "--weights", "recall=0.5")
    assert again["reward"] == pytest.approx(1.0)


def test_a_gain_over_nothing_is_refused(run: Run, tmp_path: Path) -> None:
    before = (tmp_path / "trajectories.jsonl").read_bytes()
    with pytest.raises(SystemExit, match="gain needs the answers after plain retrieval"):
        run(inference.reward.main, "--weights", "gain=1")
    assert (tmp_path / "trajectories.jsonl").read_bytes() == before


def test_what_was_not_rolled_out_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (tmp_path / "trajectories.jsonl").read_bytes()
    cases = {
        "3: field 'id': 'q1' is not there. Give the --dataset": QUESTIONS[:1],
        "1: field 'id': 'q0' is another question there": [replace(QUESTIONS[0], question="Who?")],
    }
    for message, records in cases.items():
        write_records(tmp_path / "other.jsonl", records)
        given = ("--trajectories", "trajectories.jsonl", "--dataset", "other.jsonl")
        with pytest.raises(SystemExit) as error:
            run_main(monkeypatch, inference.reward.main, *given, "--out", "trajectories.jsonl")
        assert f"trajectories.jsonl:{message}" in str(error.value)
        assert (tmp_path / "trajectories.jsonl").read_bytes() == before
