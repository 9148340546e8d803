"""The comparison command: tables of several runs, matching by id, and errors that say where."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evaluation.compare import add_mauve, compare_all
from evaluation.runs import TraceError, read_run, read_scores

SCRIPT = Path(__file__).resolve().parents[2] / "evaluation" / "compare.py"


def _record(question: str, score: float, tokens: int = 100, **changes: Any) -> dict[str, Any]:
    bill = {"llm_calls": 2, "weighted_tokens": tokens, "seconds": {"plan": 0.25, "answer": 0.5}}
    record = {
        "id": question,
        "question": "Who?",
        "answer": "Ann",
        "answers": ["Ann"],
        "em": float(score == 1.0),
        "f1": score,
        "recall": 0.5,
        "error": None,
        "bill": bill,
    }
    return {**record, **changes}


def _write(
    folder: Path, records: list[dict[str, Any]], loop: str = "", dataset: str = "qa", **more: Any
) -> Path:
    folder.mkdir(parents=True)
    lines = (json.dumps(record) + "\n" for record in records)
    (folder / "traces.jsonl").write_text("".join(lines), encoding="utf-8")
    results = {"loop": loop or folder.name, "dataset": dataset, "n": len(records), **more}
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def _run(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def _fails(*arguments: object, folder: Path) -> str:
    done = _run(*arguments, folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    """A baseline, a better run in another order, and one that is only dearer."""
    better = [_record(f"q{i}", 1.0 if i % 2 else 0.5, 300) for i in reversed(range(20))]
    better[0]["error"] = "EngineError: timeout"
    same = [_record(f"q{i}", 0.5, 900) for i in range(20)]
    indexing = {"llm_calls": 70, "input_tokens": 1, "output_tokens": 2, "weighted_tokens": 9000}
    return [
        _write(tmp_path / "single", [_record(f"q{i}", 0.5) for i in range(20)]),
        _write(tmp_path / "ras", better),
        _write(tmp_path / "t2rag", same, indexing=indexing),
    ]


def test_the_command_sets_runs_side_by_side(three: list[Path], tmp_path: Path) -> None:
    table, picture = tmp_path / "table.md", tmp_path / "picture.svg"
    done = _run(*three, "--markdown", table, "--picture", picture, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    [group] = json.loads(done.stdout.splitlines()[-1])["datasets"]
    assert (group["dataset"], group["n"], group["baseline"]) == ("qa", 20, "single")
    single, ras, t2rag = group["runs"]
    assert "against_baseline" not in single
    f1, em = (ras["against_baseline"][metric] for metric in ("f1", "em"))
    assert f1["difference"] == pytest.approx(0.25) and f1["low"] > 0
    assert ras["em"]["mean"] == pytest.approx(0.5) and em["p_value"] < 0.01
    # Two runs are tested: the smaller p counts twice, the other one is certain.
    assert f1["p_holm"] == pytest.approx(2 * f1["p_value"])
    assert t2rag["against_baseline"]["f1"]["p_holm"] == 1
    assert [run["weighted_tokens"] for run in group["runs"]] == [100, 300, 900]
    assert (ras["seconds"], ras["recall"], ras["llm_calls"], ras["errors"]) == (0.75, 0.5, 2, 1)
    assert "+25.0" in done.stdout
    rows = [line for line in table.read_text(encoding="utf-8").splitlines() if "|" in line]
    assert len(rows) == 5 and len({row.count("|") for row in rows}) == 1
    assert rows[-1].startswith("| t2rag | 0.0 [0.0, 0.0] | 50.0") and "| 9,000 |" in rows[-1]
    drawn = picture.read_text(encoding="utf-8")
    assert drawn.startswith("<?xml") and all(f"<!-- {p.name} -->" in drawn for p in three)


def test_every_question_type_is_compared(tmp_path: Path) -> None:
    kinds = ["bridge"] * 8 + ["comparison"] * 4 + [""]
    single = [_record(f"q{i}", 0.5, type=kind) for i, kind in enumerate(kinds)]
    ras = [_record(f"q{i}", float(kind == "bridge"), type=kind) for i, kind in enumerate(kinds)]
    runs = [_write(tmp_path / "single", single), _write(tmp_path / "ras", ras[::-1])]
    table = tmp_path / "table.md"
    done = _run(*runs, "--markdown", table, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    [group] = json.loads(done.stdout.splitlines()[-1])["datasets"]
    assert group["types"] == {"bridge": 8, "comparison": 4, "(none)": 1}
    base, other = (run["by_type"] for run in group["runs"])
    assert base["bridge"] == {"n": 8, "em": 0.0, "f1": 0.5}
    assert (other["bridge"]["em"], other["comparison"]["f1"]) == (1.0, 0.0)
    bridge, comparison, untyped = (other[name]["against_baseline"] for name in group["types"])
    assert bridge["em"]["difference"] == 1.0 and bridge["f1"]["difference"] == 0.5
    assert comparison["em"]["difference"] == 0.0 and comparison["f1"]["difference"] == -0.5
    assert untyped["f1"]["difference"] == -0.5
    # Three types are tested together.
    least = min(bridge["f1"]["p_value"], comparison["f1"]["p_value"])
    assert bridge["f1"]["p_holm"] == pytest.approx(3 * least)
    weighted = sum(own["n"] * own["against_baseline"]["f1"]["difference"] for own in other.values())
    whole = group["runs"][1]["against_baseline"]["f1"]["difference"]
    assert weighted / group["n"] == pytest.approx(whole)
    assert "qa by question type" in done.stdout
    lines = table.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith(("| bridge", "| comparison", "| (none)"))]
    assert [row.split(" | ")[1:3] for row in rows] == [
        [n, name] for n in ("8", "4", "1") for name in ("single", "ras")
    ]
    other_type = _write(tmp_path / "typed", [{**r, "type": "bridge"} for r in single], loop="x")
    error = _fails(runs[0], other_type, folder=tmp_path)
    assert "has the type 'comparison'" in error and "'bridge'" in error


def test_another_baseline_labels_and_data_sets(three: list[Path], tmp_path: Path) -> None:
    other = [
        _write(tmp_path / "other" / name, [_record("x", score)], loop=name, dataset="hotpot")
        for name, score in (("single", 1.0), ("mine", 0.2))
    ]
    runs = [*map(str, three), str(other[0]), f"t2rag={other[1]}"]
    done = _run(*runs, "--baseline", "t2rag", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout.splitlines()[-1])["datasets"]
    assert (first["dataset"], second["dataset"]) == ("qa", "hotpot")
    assert first["runs"][1]["against_baseline"]["f1"]["difference"] == pytest.approx(0.25)
    assert second["runs"][0]["against_baseline"]["f1"]["difference"] == pytest.approx(0.8)
    assert second["runs"][1]["loop"] == "mine"
    error = _fails(*runs, "--baseline", "ras", folder=tmp_path)
    assert "no run over hotpot is called 'ras'" in error and "single, t2rag" in error


def test_other_questions_are_an_error_with_the_ids(tmp_path: Path) -> None:
    baseline = _write(tmp_path / "a", [_record("q1", 1.0), _record("q2", 1.0)])
    candidate = _write(tmp_path / "b", [_record("q1", 1.0), _record("q9", 1.0)])
    error = _fails(baseline, candidate, "--json", folder=tmp_path)
    assert f"1 only in {baseline} (q2)" in error
    assert f"1 only in {candidate} (q9)" in error
    assert "same data set and --limit" in error


def test_other_gold_answers_are_an_error_with_both(tmp_path: Path) -> None:
    first = _write(tmp_path / "a", [_record("q1", 1.0)])
    second = _write(tmp_path / "b", [_record("q1", 1.0, answers=["Ben"])])
    error = _fails(first, second, folder=tmp_path)
    assert "'q1'" in error and "['Ann']" in error and "['Ben']" in error
    assert "evaluate both on the same file" in error


def test_two_runs_of_one_loop_need_labels(tmp_path: Path) -> None:
    runs = [_write(tmp_path / name, [_record("q1", 1.0)], loop="ras") for name in ("a", "b")]
    assert f"name one of them by LABEL={runs[1]}" in _fails(*runs, folder=tmp_path)
    assert _run(runs[0], f"second={runs[1]}", folder=tmp_path).returncode == 0


def test_runs_that_are_not_finished_and_bad_options(tmp_path: Path) -> None:
    run = _write(tmp_path / "a", [_record("q1", 1.0)])
    assert "nowhere: no such folder" in _fails(run, tmp_path / "nowhere", folder=tmp_path)
    (run / "progress.jsonl").touch()
    assert "not finished" in (error := _fails(run, folder=tmp_path)) and "--resume" in error
    (run / "progress.jsonl").unlink()
    (run / "traces.jsonl").rename(tmp_path / "kept")
    assert "traces.jsonl: no such file" in _fails(run, folder=tmp_path)
    (tmp_path / "kept").rename(run / "traces.jsonl")
    (run / "results.json").write_text('{"loop": "a", "dataset": "qa", "n": 7}')
    assert "tells of 7 questions" in _fails(run, folder=tmp_path)
    (run / "results.json").write_text('{"loop": 3}')
    assert "field 'loop'" in _fails(run, folder=tmp_path)
    (run / "results.json").unlink()
    assert "results.json: no such file, so the run is not finished" in _fails(run, folder=tmp_path)
    resamples = _run(run, run, "--resamples", 0, folder=tmp_path)
    assert resamples.returncode == 2 and "must be at least 1" in resamples.stderr
    picture = _run(run, "--picture", "a.gif", folder=tmp_path)
    assert picture.returncode == 2 and "end its name in .png" in picture.stderr
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
    empty = _write(tmp_path / "empty", [])
    with pytest.raises(TraceError, match="holds no traces"):
        read_scores(empty)
    (empty / "traces.jsonl").write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(TraceError, match=r"traces\.jsonl:1: not JSON"):
        read_scores(empty)


def test_traces_without_costs_leave_their_cells_empty(tmp_path: Path) -> None:
    old = {"id": "q1", "em": 1.0, "f1": 1.0, "recall": None, "error": None}
    run = read_run(str(_write(tmp_path / "a", [old])))
    [group] = compare_all([run], resamples=200)
    [figures] = group["runs"]
    assert [figures[name] for name in ("llm_calls", "weighted_tokens", "recall")] == [None] * 3


def test_a_run_compared_with_itself_differs_in_nothing(tmp_path: Path) -> None:
    folder = _write(tmp_path / "a", [_record("q1", 1.0), _record("q2", 0.2)])
    runs = [read_run(f"{label}={folder}") for label in ("one", "two")]
    [group] = compare_all(runs, resamples=200)
    f1 = group["runs"][1]["against_baseline"]["f1"]
    assert (f1["difference"], f1["p_value"], f1["p_holm"]) == (0, 1, 1)


def test_mauve_of_each_run_against_the_gold_answers(
    three: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [read_run(str(folder)) for folder in three]
    compared = compare_all(runs)
    monkeypatch.setattr(
        "evaluation.compare.mauve_score", lambda answers, golds, model: len(answers + golds) / 40
    )
    rows = add_mauve(compared, runs, tmp_path)
    assert rows == [["qa", run.label, 1.0] for run in runs]
    assert [run["mauve"] for run in compared[0]["runs"]] == [1.0] * 3
    assert "no config.json" in _fails(three[0], "--mauve", tmp_path, folder=tmp_path)
