"""benchmarks/improvements.py on folders as training/improve.py leaves them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks.commands import last_json, run_benchmark
from tests.benchmarks.evaluations import write_evaluation
from training.rounds.record import ROUNDS_FILE, SETTINGS_FILE, Round
from training.rounds.settings import ImproveSettings


def improvement(folder: Path, *right: list[float]) -> Path:
    """A folder of rounds with these answers right; after them one that was passed over."""
    rounds = []
    for number, ems in enumerate(right):
        out = folder / f"round-{number:02d}" / "measure"
        write_evaluation(out, ems, retrieval_recall=0.5)
        measured = json.loads((out / "results.json").read_text())
        drawn = {"trajectories": 8, "f1": 0.5} if number else {}
        rounds.append(Round(number, "c", number != 1, measured["f1"], drawn, {}, measured))
    rounds.append(Round(len(right), "c", False, 0.5, {"mixed_groups": 0}, {}, rounds[0].measured))
    lines = (json.dumps(asdict(done)) + "\n" for done in rounds)
    (folder / ROUNDS_FILE).write_text("".join(lines))
    (folder / SETTINGS_FILE).write_text(json.dumps(asdict(ImproveSettings()), default=str))
    return folder


def told(*given: str) -> dict[str, Any]:
    found: dict[str, Any] = last_json(run_benchmark("improvements.py", *given, "--json"))
    return found


def test_each_round_is_tested_against_the_start(tmp_path: Path) -> None:
    start, worse, better = [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]
    folder = improvement(tmp_path / "planner", start * 5, worse * 5, better * 5)
    found = told(f"planner={folder}")["planner"]
    assert (found["component"], found["beside"], found["group"]) == ("ras", "", 4)
    first, second, third, passed_over = found["rounds"]
    assert [each["kept"] for each in found["rounds"]] == [True, False, True, False]
    assert "component" not in first and first["measured"]["against_baseline"] is None
    assert second["measured"]["against_baseline"]["f1"]["difference"] == -0.25
    test = third["measured"]["against_baseline"]["f1"]
    assert test["difference"] == 0.25 and test["p_value"] < test["p_holm"]
    assert (third["measured"]["weighted_tokens"], third["measured"]["llm_calls"]) == (50, 2)
    assert third["measured"]["retrieval_recall"] == 0.5 and third["measured"]["searches"] == 2
    assert passed_over["measured"]["against_baseline"] is None


def test_a_folder_without_a_finished_round_is_refused(tmp_path: Path) -> None:
    done = run_benchmark("improvements.py", f"none={tmp_path}")
    assert done.returncode == 1 and "no round of training/improve.py is finished" in done.stderr
    done = run_benchmark("improvements.py", str(tmp_path))
    assert done.returncode == 2 and "give NAME=PATH" in done.stderr
