"""The comparison command: results, matching by id, and errors that say where."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evaluation.compare import TraceError, compare_runs, read_scores

SCRIPT = Path(__file__).resolve().parents[2] / "evaluation" / "compare.py"


def _record(question: str, score: float, **changes: Any) -> dict[str, Any]:
    record = {
        "id": question,
        "question": "Who?",
        "answer": "Ann",
        "answers": ["Ann"],
        "em": float(score == 1.0),
        "f1": score,
        "error": None,
    }
    return {**record, **changes}


def _write(folder: Path, records: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    lines = (json.dumps(record) + "\n" for record in records)
    (folder / "traces.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def _run(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def test_the_command_compares_runs_in_any_order(tmp_path: Path) -> None:
    baseline = _write(tmp_path / "a", [_record(f"q{i}", 0.5) for i in range(20)])
    better = [_record(f"q{i}", 1.0 if i % 2 else 0.5) for i in reversed(range(20))]
    better[0]["error"] = "EngineError: timeout"
    candidate = _write(tmp_path / "b", better)
    done = _run(baseline, candidate / "traces.jsonl", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "EM" in done.stdout
    assert "+25.0" in done.stdout
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["n"] == 20
    assert result["f1"]["difference"] == pytest.approx(0.25)
    assert result["f1"]["low"] > 0
    assert result["em"]["candidate"]["mean"] == pytest.approx(0.5)
    assert result["em"]["p_value"] < 0.01
    assert result["errors"] == {"baseline": 0, "candidate": 1}


def test_other_questions_are_an_error_with_the_ids(tmp_path: Path) -> None:
    baseline = _write(tmp_path / "a", [_record("q1", 1.0), _record("q2", 1.0)])
    candidate = _write(tmp_path / "b", [_record("q1", 1.0), _record("q9", 1.0)])
    done = _run(baseline, candidate, "--json", folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "1 only in the baseline (q2)" in done.stderr
    assert "1 only in the candidate (q9)" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_folder_and_bad_options_are_usage_errors(tmp_path: Path) -> None:
    run = _write(tmp_path / "a", [_record("q1", 1.0)])
    missing = _run(run, tmp_path / "nowhere", folder=tmp_path)
    assert missing.returncode == 2
    assert "nowhere: no such file" in missing.stderr
    resamples = _run(run, run, "--resamples", 0, folder=tmp_path)
    assert resamples.returncode == 2
    assert "--resamples must be at least 1" in resamples.stderr
    assert _run("--help", folder=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "q2", "em": 1', r"traces\.jsonl:2: not JSON"),
        ("[1]", r"traces\.jsonl:2: not a JSON object"),
        (json.dumps(_record("q1", 1.0)), r":2: field 'id': 'q1' occurs twice"),
        (json.dumps(_record("", 1.0)), r":2: field 'id'"),
        (json.dumps(_record("q2", 1.0, em=None)), r":2: field 'em'.*None"),
        (json.dumps(_record("q2", 1.0, f1=71.0)), r":2: field 'f1'.*71"),
        (json.dumps(_record("q2", 1.0, f1="1")), r":2: field 'f1'"),
        (json.dumps(_record("q2", float("nan"))), r":2: field 'f1'.*nan"),
    ],
)
def test_malformed_traces_are_named(tmp_path: Path, line: str, message: str) -> None:
    run = _write(tmp_path / "a", [_record("q1", 1.0)])
    with (run / "traces.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(TraceError, match=message):
        read_scores(run)


def test_an_empty_file_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(TraceError, match="holds no traces"):
        read_scores(empty)
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(TraceError, match=r"binary\.jsonl:1: not JSON"):
        read_scores(binary)


def test_a_run_compared_with_itself_differs_in_nothing(tmp_path: Path) -> None:
    run = read_scores(_write(tmp_path / "a", [_record("q1", 1.0), _record("q2", 0.2)]))
    result = compare_runs(run, run, resamples=200)
    assert result["f1"]["difference"] == 0
    assert result["f1"]["p_value"] == 1
