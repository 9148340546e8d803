"""The forms of several processes side by side: figures, and honest gaps."""

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.forms import (
    FORMS,
    ONE,
    Plan,
    form_figures,
    is_installed,
    run_form,
    write_samples,
)
from benchmarks.workers.form import component_of
from models.formats.records import TriplesSample, read_records
from tests.benchmarks.commands import ROOT, last_json, run_benchmark


def figures(seconds: list[float], losses: list[float], **more: Any) -> dict[str, Any]:
    given = {"kind": "NO", "processes": 1, "peak_rss_bytes": 2**30, "tokens": [100] * len(seconds)}
    return {"status": "ok", **given, "seconds": seconds, "losses": losses, **more}


def test_medians_are_of_the_counted_steps_of_all_rounds() -> None:
    rounds = [figures([9.0, 1.0, 2.0], [3.0, 2.0, 1.0]), figures([9.0, 4.0, 1.0], [3.0, 2.0, 1.0])]
    found = form_figures(rounds, rounds, warm_up=1)
    assert found["steps"] == 4
    assert found["median_step_seconds"] == 1.5
    assert found["tokens_per_second"] == 75.0  # of 100, 50, 25 and 100
    assert found["max_loss_difference"] == 0 and found["peak_rss_gib"] == 1


def test_another_course_and_a_failure_are_said() -> None:
    one = [figures([1.0], [2.0])]
    assert form_figures([figures([1.0], [2.001])], one, 0)["status"] == "ok"
    for loss in (2.1, float("nan")):
        other = form_figures([figures([1.0], [loss])], one, 0)
        assert other["status"] == "its losses are not those of one process"
    failed = {"status": "timed out"}
    assert form_figures([failed], one, 0) == failed
    assert form_figures([*one, failed], one, 0)["status"] == "1 of 2 rounds ran"


def test_a_form_without_its_library_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    monkeypatch.setattr("benchmarks.harness.forms.is_installed", lambda form: False)
    plan = Plan(tmp_path / "none.yaml", [], 2, 2, 0, 1.0)
    assert "pip install -e '.[deepspeed]'" in run_form("zero3", plan, tmp_path)["status"]


def test_a_recipe_names_its_training(tmp_path: Path) -> None:
    for name in ("t2t", "tri_rag", "ras"):
        assert component_of(Path(f"{name}_smollm2.yaml")) == name
    with pytest.raises(ValueError, match="name it after its training"):
        component_of(Path("mine.yaml"))


def test_samples_come_from_the_seed(tmp_path: Path) -> None:
    for number, seed in enumerate((0, 0, 1)):
        write_samples(tmp_path / f"{number}.jsonl", 5, seed)
    first, again, other = (
        list(read_records(tmp_path / f"{number}.jsonl", TriplesSample)) for number in range(3)
    )
    assert first == again != other and len(first) == 5


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_command_measures_forms_and_says_what_failed() -> None:
    sizes = ("--width", "32", "--layers", "1", "--steps", "3", "--warm-up", "1")
    done = run_benchmark(
        "processes.py", *sizes, "--batch-size", "2", "--forms", ONE, "ddp", "fsdp2"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = last_json(done)
    assert report["benchmark"] == "processes" and report["threads_a_process"] == 1
    kinds = {"one": "NO", "ddp": "MULTI_CPU", "fsdp2": "FSDP"}
    for form, kind in kinds.items():
        measured = report["forms"][form]
        assert measured["status"] == "ok", measured
        assert measured["kind"] == kind and measured["steps"] == 2
        assert measured["ratio_to_one_process"] > 0 and measured["max_loss_difference"] < 1e-4
    assert set(FORMS) == {"ddp", "fsdp2", "zero2", "zero3"}
    assert all(is_installed(form) for form in kinds)
    failed = run_benchmark(
        "processes.py", "--config", str(ROOT / "configs/t2t_tiny.yaml"), "--forms", ONE,
        "--", "data.train=nowhere.jsonl", "model.backbone=nowhere",
    )  # fmt: skip
    assert last_json(failed)["forms"]["one"]["status"].startswith("failed: ")
