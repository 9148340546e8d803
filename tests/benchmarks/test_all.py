"""All measurements of speed in one command: rounds, budget, what is kept, what became worse."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import all as performance
from benchmarks.all import (
    Budget,
    PerformanceError,
    measure,
    read_record,
    run_round,
    settings_of,
)
from benchmarks.harness.performance import (
    PARTS,
    Part,
    figures_of,
    is_relative,
    over_rounds,
    verdict,
)
from benchmarks.harness.processes import PartResult
from benchmarks.harness.run_folder import RunFolderError, claim

STEP = Part("step", ("--fast",), {"ratio": "higher", "by.*.seconds": "lower"})
ONCE = Part("once", (), {"value": "higher"}, rounds=1)


def result(ratio: float, seconds: float) -> dict[str, Any]:
    return {"ratio": ratio, "by": {"a": {"seconds": seconds}, "b": {"other": 1}}, "text": "x"}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Every command that is run; each gives a ratio that grows by one."""
    seen: list[list[str]] = []

    def run(command: list[str], environment: object, limit: float) -> PartResult:
        seen.append(command)
        return PartResult("ok", {"ratio": len(seen), "value": len(seen), "by": {}})

    monkeypatch.setattr(performance, "run_process", run)
    return seen


def budget(seconds: float = 60.0) -> Budget:
    return Budget(time.monotonic() + seconds)


def test_figures_are_found_by_their_paths() -> None:
    assert figures_of(STEP, result(2.0, 0.5)) == {"ratio": 2.0, "by.a.seconds": 0.5}
    assert figures_of(STEP, {"ratio": None}) == {}


def test_a_figure_is_the_median_of_its_rounds() -> None:
    found = over_rounds(STEP, [result(1.0, 3.0), result(5.0, 1.0), result(2.0, 2.0)])
    assert found["ratio"] == {
        "median": 2.0,
        "min": 1.0,
        "max": 5.0,
        "rounds": 3,
        "better": "higher",
    }
    assert found["by.a.seconds"]["better"] == "lower"


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        ((2.0, 1.9, 2.1), (1.5, 1.4, 1.6), "better"),
        ((1.0, 0.9, 1.1), (1.5, 1.4, 1.6), "worse"),
        ((1.4, 1.2, 1.55), (1.5, 1.4, 1.6), "same"),
        # Apart, but by less than counts.
        ((1.52, 1.51, 1.53), (1.5, 1.49, 1.505), "same"),
    ],
)
def test_only_rounds_that_lie_apart_are_a_difference(
    now: tuple[float, float, float], before: tuple[float, float, float], said: str
) -> None:
    both = [
        dict(zip(("median", "min", "max"), values, strict=True)) | {"better": "higher"}
        for values in (now, before)
    ]
    assert verdict("ratio", both[0], both[1], same_machine=False) == said
    lower = [values | {"better": "lower"} for values in both]
    turned = {"better": "worse", "worse": "better"}.get(said, said)
    assert verdict("ratio", lower[0], lower[1], same_machine=False) == turned


def test_seconds_of_another_machine_are_not_compared() -> None:
    values = {"median": 1.0, "min": 1.0, "max": 1.0, "better": "lower"}
    slower = values | {"median": 9.0, "min": 9.0, "max": 9.0}
    assert verdict("open_seconds", slower, values, same_machine=False) == "other machine"
    assert verdict("open_seconds", slower, values, same_machine=True) == "worse"
    assert verdict("open_seconds", slower, None, same_machine=True) == "new"
    assert is_relative("n=64.ratio_vs_peft") and is_relative("curves.a.exponent")


def test_rounds_go_in_turn_and_nothing_is_run_twice(calls: list[list[str]], tmp_path: Path) -> None:
    parts = [STEP, ONCE]
    found = measure(parts, 2, tmp_path, budget())
    names = [Path(command[1]).stem for command in calls]
    assert names == ["step", "once", "step"]
    assert calls[0][0] == sys.executable and calls[0][2:] == ["--fast"]
    assert found["step"]["figures"]["ratio"]["median"] == 2.0
    assert len(found["once"]["seconds"]) == 1
    # What was interrupted goes on: one round is missing.
    (tmp_path / "step-1.json").unlink()
    measure(parts, 2, tmp_path, budget())
    assert len(calls) == 4


def test_a_run_that_would_not_fit_is_not_begun(calls: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "step-0.json").write_text(
        json.dumps({"status": "ok", "seconds": 100.0, "figures": {"ratio": 1.0}})
    )
    assert run_round(STEP, 1, tmp_path, budget(50.0)) == {"status": "no time left"}
    assert run_round(STEP, 0, tmp_path, budget(-1.0))["status"] == "ok"
    assert not calls
    found = measure([STEP], 2, tmp_path, budget(50.0))
    assert found["step"]["status"] == "no time left"
    assert found["step"]["figures"]["ratio"]["rounds"] == 1


def test_what_fails_by_itself_is_not_tried_in_every_round(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[object] = []

    def fails(*arguments: object) -> PartResult:
        tried.append(arguments)
        return PartResult("failed: no vLLM")

    monkeypatch.setattr(performance, "run_process", fails)
    found = measure([STEP], 3, tmp_path, budget())
    assert len(tried) == 1
    assert found["step"] == {
        "status": "failed: no vLLM", "arguments": "--fast", "seconds": [], "figures": {}
    }  # fmt: skip
    assert not list(tmp_path.glob("step-*"))


def test_runs_of_other_arguments_are_not_gone_on_with(tmp_path: Path) -> None:
    claim(tmp_path / "out", settings_of([STEP]))
    claim(tmp_path / "out", settings_of([STEP, ONCE]))
    other = Part("step", ("--slow",), STEP.figures)
    with pytest.raises(RunFolderError, match="another step"):
        claim(tmp_path / "out", settings_of([other]))


@pytest.mark.parametrize("content", ["", "{}", '{"parts": 1}', "[1]"])
def test_a_file_that_is_no_record_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(PerformanceError, match=r"results\.json"):
        read_record(tmp_path / "results.json")


def test_a_worse_figure_ends_the_command_with_one(
    calls: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train_step = PARTS[0]
    report = {
        "parts": {
            train_step.name: {"figures": {"ratio_vs_pyg": {"median": 9.0, "min": 8.0, "max": 10.0}}}
        },
        "machine": {},
    }
    (tmp_path / "results.json").write_text(json.dumps(report))
    monkeypatch.setattr(
        performance, "run_process", lambda *_: PartResult("ok", {"ratio_vs_pyg": 1.0})
    )
    line = ["all.py", "--parts", "train_step", "--out", str(tmp_path / "out"), "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", [*line, "--against", str(tmp_path / "results.json")])
    with pytest.raises(SystemExit) as ended:
        performance.main()
    assert ended.value.code == 1
    monkeypatch.setattr(sys, "argv", line)
    performance.main()


def test_every_part_is_a_benchmark_with_these_options() -> None:
    for part in PARTS:
        assert (Path(performance.__file__).parent / f"{part.name}.py").is_file(), part.name
        assert part.figures
