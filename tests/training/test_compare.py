"""run.json says what a run was made with, and two runs are shown side by side."""

import json
import sys
from pathlib import Path

import pytest

from common.files import file_sha256
from tests.training.conftest import Settings
from tests.training.runs import train
from training import compare
from training.compare import curve_rows, differences
from training.run.run_folder import git_state, history_log, read_history, read_starts

pytestmark = pytest.mark.timeout(300)


@pytest.mark.slow
def test_two_runs_are_recorded_and_compared(
    settings: Settings,
    triples_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    train(settings(f"output_dir={first}", "train.max_steps=2"))
    train(settings(f"output_dir={first}", "train.max_steps=3", "train.resume=last"))
    train(settings(f"output_dir={second}", "train.max_steps=3", "train.learning_rate=0.01"))
    begun, resumed = read_starts(first)
    assert (begun["resumed_from"], resumed["resumed_from"]) == (None, "checkpoint-2")
    assert resumed["data"]["train"]["sha256"] == file_sha256(triples_file)
    assert resumed["data"]["dev"] is None and resumed["settings"]["train"]["seed"] == 0
    assert {"python", "torch", "accelerate"} <= resumed["versions"].keys()
    assert resumed["processes"]["number"] == 1 and resumed["hardware"]["cpus"] >= 1

    picture = tmp_path / "curves.png"
    command = ["compare.py", str(first), str(second), "--out", str(picture), "--json"]
    monkeypatch.setattr(sys, "argv", command)
    capsys.readouterr()
    compare.main()
    output = capsys.readouterr().out
    assert "train.learning_rate" in output and "0.005" in output
    compared = json.loads(output.splitlines()[-1])
    assert ["settings.train.learning_rate", 0.005, 0.01] in compared["differences"]
    assert [key for key, *_ in compared["differences"]] == [
        *("settings.output_dir", "settings.train.learning_rate", "settings.train.resume"),
    ]
    assert list(compared["curves"]["a"]["loss"]) == ["1", "2", "3"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_differences_are_found_at_any_depth() -> None:
    first = {"a": {"b": 1, "c": [1]}, "d": 1, "only": 2}
    second = {"a": {"b": 2, "c": [1]}, "d": 1, "other": 3}
    assert differences(first, second) == [("a.b", 1, 2), ("only", 2, None), ("other", None, 3)]


def test_rows_are_few_and_end_with_the_last_step() -> None:
    first = {"loss": {step: 1.0 * step for step in range(1, 101)}, "eval_loss": {100: 0.5}}
    rows = curve_rows(first, {"loss": {3: 9.0}, "eval_loss": {}})
    assert len(rows) <= 12 and rows[-1] == [100, 100.0, None, 0.5, None]


def test_a_history_that_is_being_written_is_read_as_it_is(tmp_path: Path) -> None:
    log = history_log(tmp_path)
    log.append([{"step": 1}])
    with log.path.open("a") as handle:
        handle.write('{"step": 2, "lo')
    text = log.path.read_text()
    log.path.chmod(0o444)
    assert read_history(tmp_path) == [{"step": 1}]
    assert log.path.read_text() == text
    log.path.chmod(0o644)
    history_log(tmp_path).append([{"step": 3}])
    assert read_history(tmp_path) == [{"step": 1}, {"step": 3}]


def test_a_folder_that_is_no_run_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["compare.py", str(tmp_path), str(tmp_path)])
    with pytest.raises(SystemExit, match=r"error: .*run\.json: no such file"):
        compare.main()
    assert git_state(tmp_path) is None
