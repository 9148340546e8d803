"""Measurements are kept whole with what repeats them, or not at all."""

import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import benchmarks.record
from benchmarks.record import ROOT
from evaluation.runs import read_run
from evaluation.significance import bootstrap_interval
from tests.benchmarks.evaluations import write_evaluation
from tests.run_main import run_main

SAYS = 'print(\'working\'); print(\'{"ratio": 2.5, "settings": {"seed": 4}}\')'


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command with records under tmp_path/results."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, *arguments: object) -> Path:
        run_main(
            monkeypatch, benchmarks.record.main, name, "--root", tmp_path / "results", *arguments
        )
        return tmp_path / "results" / name

    return run


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_command_is_kept_with_all_that_repeats_it(
    record: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, log = tmp_path / "qa" / "x.jsonl", tmp_path / "trace.jsonl"
    data.parent.mkdir()
    data.write_text('{"id": 1}\n')
    log.write_text("a\nb\n")
    folder = record(
        "a/b", "--data", "qa/x.jsonl", "--keep", "trace.jsonl", "--", "python", "-c", SAYS
    )
    assert capsys.readouterr().out.startswith("working\n")
    run = read(folder / "run.json")
    assert read(folder / "results.json")["ratio"] == 2.5
    assert run["command"].startswith("python -c ") and run["seed"] == 4 and run["exit_code"] == 0
    assert run["data"]["DATA/qa/x.jsonl"]["records"] == 1
    assert run["wall_seconds"] > 0 and run["cpu_seconds"] > 0 and run["started"]
    assert run["machine"]["cores"] and run["versions"]["torch"]
    assert set(run) >= {"commit", "dirty"}
    kept = folder / "trace.jsonl.gz"
    assert gzip.decompress(kept.read_bytes()) == b"a\nb\n"
    before = kept.read_bytes()
    record("a/b", "--keep", "trace.jsonl", "--", "python", "-c", SAYS)
    assert kept.read_bytes() == before
    assert str(tmp_path) not in (folder / "run.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", ["import sys; print('{}'); sys.exit(3)", "print('no object')"])
def test_what_fails_or_tells_nothing_leaves_nothing(record: Any, tmp_path: Path, code: str) -> None:
    with pytest.raises(SystemExit, match="error: "):
        record("bad", "--", "python", "-c", code)
    assert not list((tmp_path / "results").rglob("*"))


def test_a_command_of_ours_is_asked_for_json() -> None:
    given = ["python", "evaluation/compare.py", "runs/a"]
    assert benchmarks.record.as_run(given)[1:] == ["evaluation/compare.py", "runs/a", "--json"]
    assert benchmarks.record.as_run(["python", "-c", "1"])[1:] == ["-c", "1"]


def test_an_evaluation_of_before_is_completed_by_options(record: Any, tmp_path: Path) -> None:
    data = tmp_path / "qa" / "x_test.jsonl"
    data.parent.mkdir()
    data.write_text('{"id": 1}\n')
    right = [1.0, 0.0, 1.0]
    evaluation = write_evaluation(tmp_path / "runs" / "ras", right)
    settings = {"kb": "/home/someone/runs/kb/x", "loop": "ras"}
    (evaluation / "settings.json").write_text(json.dumps(settings))
    # The folder of the repository may hold a space.
    command = ["python", f"{ROOT}/inference/evaluate_all.py", "--datasets"]
    folder = record(
        "evaluations/x/ras", "--evaluation", evaluation, "--commit", "c" * 40, "--command",
        shlex.join([*command, f"x={data}", f"y={data}.jsonl"]),
    )  # fmt: skip
    run = read(folder / "run.json")
    assert run["command"].startswith("python inference/evaluate_all.py --datasets x=DATA/qa/x_test")
    assert run["commit"] == "c" * 40 and list(run["data"]) == ["DATA/qa/x_test.jsonl"]
    assert run["settings"]["kb"] == "ELSEWHERE/x" and run["wall_seconds"] == 3.0
    assert run["notes"] == [benchmarks.record.READ_AFTERWARDS]
    lines = gzip.decompress((folder / "predictions.jsonl.gz").read_bytes()).splitlines()
    first = json.loads(lines[0])
    assert first["retrieved"] == ["p0", "p"] and first["asked"] == ["Who?", "Who?"]
    assert first["answer"] == "Ann" and "steps" not in first and len(lines[0]) < 1000
    # The comparison command reads them as it reads traces.
    kept, traced = read_run(str(folder)), read_run(str(evaluation))
    assert kept.values("f1") == traced.values("f1") == right
    assert bootstrap_interval(kept.values("f1")).mean == kept.results["f1"]


def test_what_an_evaluation_tells_of_itself_is_kept_and_not_contradicted(
    record: Any, tmp_path: Path
) -> None:
    told = {
        "command": "python inference/evaluate.py", "commit": "a" * 40, "dirty": True,
        "data": {"DATA/qa/x.jsonl": {"sha256": "b", "records": 2}},
        "components": {"checkpoints/ras_smollm2": "c"}, "seed": None, "started": "then",
        "environment": {"machine": {"cores": 9}, "versions": {"torch": "0"}},
        "answered_earlier": 1,
    }  # fmt: skip
    evaluation = write_evaluation(tmp_path / "ras", [1.0, 0.0], provenance=told)
    folder = record("evaluations/x/ras", "--evaluation", evaluation)
    run = read(folder / "run.json")
    for name in ("command", "commit", "dirty", "data", "components", "started"):
        assert run[name] == told[name]
    assert run["machine"] == {"cores": 9} and "1 questions were answered" in run["notes"][0]
    assert "provenance" not in read(folder / "results.json")
    with pytest.raises(SystemExit, match="--commit"):
        record("evaluations/x/other", "--evaluation", evaluation, "--commit", "d" * 40)


def test_an_unfinished_evaluation_is_refused(record: Any, tmp_path: Path) -> None:
    evaluation = write_evaluation(tmp_path / "ras", [1.0])
    (evaluation / "progress.jsonl").write_text("")
    with pytest.raises(SystemExit, match="not finished"):
        record("evaluations/x/ras", "--evaluation", evaluation)


def test_a_record_never_takes_the_place_of_others(record: Any) -> None:
    record("a/b", "--", "python", "-c", SAYS)
    for name in ("a", "../out"):
        with pytest.raises(SystemExit, match="error: "):
            record(name, "--", "python", "-c", SAYS)
