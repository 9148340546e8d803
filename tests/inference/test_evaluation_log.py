"""An evaluation's folder: begun, interrupted, gone on with and begun anew."""

import json
from pathlib import Path
from typing import Any

import pytest

from inference.runs.log import EvaluationLog, EvaluationLogError


def row(name: str, answer: str, error: str | None = None) -> dict[str, Any]:
    return {"id": name, "answer": answer, "error": error}


def finished(folder: Path, top_k: int) -> None:
    log = EvaluationLog(folder, {"top_k": top_k}, resume=False)
    rows = [row(name, f"of {top_k}") for name in ("a", "b")]
    for each in rows:
        log.append(each)
    log.finish(rows, {"top_k": top_k})


def test_a_new_evaluation_in_an_old_folder_takes_none_of_its_answers(tmp_path: Path) -> None:
    finished(tmp_path, 3)
    EvaluationLog(tmp_path, {"top_k": 5}, resume=False).append(row("a", "of 5"))
    # Killed here; nothing of the earlier one is lost yet.
    assert json.loads((tmp_path / "earlier_results.json").read_text()) == {"top_k": 3}
    log = EvaluationLog(tmp_path, {"top_k": 5}, resume=True)
    assert log.rows == {"a": row("a", "of 5")}
    log.append(row("b", "of 5"))
    log.finish(list(log.rows.values()), {"top_k": 5})
    assert json.loads((tmp_path / "results.json").read_text()) == {"top_k": 5}
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["results.json", "settings.json", "traces.jsonl"]


def test_what_failed_is_asked_again_and_the_rest_is_not(tmp_path: Path) -> None:
    log = EvaluationLog(tmp_path, {"top_k": 3}, resume=False)
    log.append(row("a", "yes"))
    log.append(row("b", "", "TransientError: busy"))
    log.finish(list(log.rows.values()), {})
    assert list(EvaluationLog(tmp_path, {"top_k": 3}, resume=True).rows) == ["a"]


def test_other_settings_and_a_forgotten_resume_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationLogError, match="holds no evaluation to go on with"):
        EvaluationLog(tmp_path / "none", {}, resume=True)
    EvaluationLog(tmp_path, {"top_k": 3}, resume=False).append(row("a", "yes"))
    with pytest.raises(EvaluationLogError, match="holds an interrupted evaluation"):
        EvaluationLog(tmp_path, {"top_k": 3}, resume=False)
    with pytest.raises(EvaluationLogError, match="begun with top_k = 3, and 5 is given now"):
        EvaluationLog(tmp_path, {"top_k": 5}, resume=True)


@pytest.mark.parametrize("name", ["corpus_sha256", "dataset_sha256"])
def test_answers_over_other_data_are_refused_where_both_are_recorded(
    tmp_path: Path, name: str
) -> None:
    EvaluationLog(tmp_path, {"top_k": 3}, resume=False).append(row("a", "yes"))
    for given in ("abc", None, "abc"):
        assert EvaluationLog(tmp_path, {"top_k": 3, name: given}, resume=True).rows
    with pytest.raises(EvaluationLogError, match=f"begun with {name} = 'abc', and 'def' is given"):
        EvaluationLog(tmp_path, {"top_k": 3, name: "def"}, resume=True)


@pytest.mark.parametrize(("ras", "by_default"), [("1234", True), (None, False)])
def test_a_run_from_before_plan_ahead_was_resolved_goes_on(
    tmp_path: Path, ras: str | None, by_default: bool
) -> None:
    EvaluationLog(tmp_path, {"ras": ras, "plan_ahead": None}, resume=False).append(row("a", "yes"))
    with pytest.raises(EvaluationLogError, match="plan_ahead = None"):
        EvaluationLog(tmp_path, {"ras": ras, "plan_ahead": not by_default}, resume=True)
    same = EvaluationLog(tmp_path, {"ras": ras, "plan_ahead": by_default}, resume=True)
    assert list(same.rows) == ["a"]
