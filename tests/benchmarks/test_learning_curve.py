"""Learning curves: what more samples are worth, trained where a point is missing."""

import json
from pathlib import Path

import pytest

import benchmarks.harness.recipes
import benchmarks.learning_curve
from benchmarks.learning_curve import LOSS, TooFewSamplesError, check_sizes, fourfold
from models.formats.records import InstructionSample, write_records
from tests.run_main import run_main

ROOT = Path(__file__).resolve().parents[2]


def test_a_power_law_gains_the_same_everywhere() -> None:
    curve = {size: {LOSS: 5 * size**-0.25} for size in (1000, 4000, 8000)}
    assert fourfold(curve) == pytest.approx([4**-0.25] * 2)


def test_points_may_come_in_any_order_and_one_alone_tells_nothing() -> None:
    assert fourfold({16: {LOSS: 1.0}, 4: {LOSS: 2.0}}) == pytest.approx([0.5])
    assert fourfold({16: {LOSS: 1.0}}) == []


def test_a_file_with_too_few_samples_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("{}\n{}\n\n")
    check_sizes(tmp_path / "train.jsonl", [1, 2])
    with pytest.raises(TooFewSamplesError, match=r"train.jsonl: holds 2 samples.*asks for 3"):
        check_sizes(tmp_path / "train.jsonl", [3, 1])


@pytest.mark.exhaustive
def test_each_point_is_trained_once(
    backbone: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    samples = [InstructionSample(f"s{i}", "resolve", f"Who is {i}?", f"Ada {i}") for i in range(8)]
    write_records(tmp_path / "samples.jsonl", samples)
    given = [
        *("--component", "helper", "--config", ROOT / "configs" / "helper_tiny.yaml"),
        *("--train", tmp_path / "samples.jsonl", "--dev", tmp_path / "samples.jsonl"),
        *("--dir", tmp_path / "out", "--sizes", 8, 2, "--dev-samples", 4, "--threads", 1),
        *("--values", f"model.backbone={backbone}", "train.batch_size=1"),
        "train.gradient_accumulation_steps=1",
    ]
    reports = []
    for _ in range(2):
        run_main(monkeypatch, benchmarks.learning_curve.main, *given)
        reports.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
        # What is there is not trained again.
        monkeypatch.setattr(benchmarks.harness.recipes, "run_part", None)
    assert reports[0] == reports[1]
    curve = reports[0]["curve"]
    assert {size: figures["steps"] for size, figures in curve.items()} == {"2": 2, "8": 8}
    [gain] = reports[0]["fourfold"]
    assert gain == pytest.approx(curve["8"][LOSS] / curve["2"][LOSS])
    with pytest.raises(SystemExit, match=r"another seed \(0, not 1\)"):
        run_main(monkeypatch, benchmarks.learning_curve.main, *given, "--seed", 1)
