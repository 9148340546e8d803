"""Table IV's comparison: as many samples for each adaptation, gone on where it was interrupted."""

import argparse
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import benchmarks.adaptations
import benchmarks.harness.recipes
from benchmarks.adaptations import answered, learned_parameters
from benchmarks.harness.recipes import PartFailedError, run_part
from models.condition_extractor import Adaptation
from models.formats.records import ConditionSample, write_records
from tests.run_main import run_main

ROOT = Path(__file__).resolve().parents[2]


def test_parameters_are_those_of_all_files(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2, 3), "b": torch.zeros(())}, tmp_path / "one.safetensors")
    save_file({"c": torch.zeros(4, dtype=torch.bfloat16)}, tmp_path / "two.safetensors")
    assert learned_parameters(tmp_path) == 2 * 3 + 1 + 4


def test_a_failed_command_is_named_with_its_error() -> None:
    script = ROOT / "inference" / "measure_triplets.py"
    with pytest.raises(PartFailedError, match=r"measure_triplets.py --kb nowhere(.|\n)*nowhere"):
        run_part([script, "--kb", "nowhere"], 1)


def test_outputs_without_a_triplet_are_a_result_and_another_failure_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = argparse.Namespace(
        corpus="c", questions="q", limit=2, engine="transformers", threads=1
    )

    def fails(message: str) -> None:
        def run(*_: object) -> dict[str, object]:
            raise PartFailedError(message)

        monkeypatch.setattr(benchmarks.adaptations, "run_part", run)

    fails(
        "build_kb.py failed: error: no usable triplet in 2 documents: is this a trained extractor?"
    )
    assert answered(tmp_path, tmp_path, options) == {"no_triplets": True}
    fails("build_kb.py failed: error: c is not there")
    with pytest.raises(PartFailedError, match="c is not there"):
        answered(tmp_path, tmp_path, options)


@pytest.mark.exhaustive
def test_each_learns_from_the_same_samples(
    backbone: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = [f"Ada{i} is {i}." for i in range(8)]
    samples = [
        ConditionSample(f"c{i}/0", text, f"Ada{i}; age", text, text) for i, text in enumerate(texts)
    ]
    write_records(tmp_path / "samples.jsonl", samples)
    given = [
        *("--train", tmp_path / "samples.jsonl", "--dev", tmp_path / "samples.jsonl"),
        *("--corpus", "unused", "--questions", "unused", "--dir", tmp_path / "out"),
        *("--config", ROOT / "configs" / "tri_rag_tiny.yaml", "--samples", 4, "--dev-samples", 2),
        *("--limit", 0, "--threads", 1),
        *(
            "--values",
            f"model.backbone={backbone}",
            "model.max_output_tokens=64",
            "model.max_input_tokens=1200",
        ),
    ]
    rates = {Adaptation.prefix_tuning: (0.01, 0.1), Adaptation.lora: (0.01,),
             Adaptation.soft_prompt: (0.01,)}  # fmt: skip
    monkeypatch.setattr(benchmarks.adaptations, "LEARNING_RATES", rates)
    reports = []
    for _ in range(2):
        run_main(monkeypatch, benchmarks.adaptations.main, *given)
        reports.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
        # What is there is not trained again.
        monkeypatch.setattr(benchmarks.harness.recipes, "run_part", None)
    assert reports[0] == reports[1]
    found = {name: each["training"] for name, each in reports[0]["adaptations"].items()}
    assert set(found) == {each.value for each in Adaptation}
    assert found["pretrained"]["parameters"] == 0
    learned = [figures for name, figures in found.items() if name != "pretrained"]
    assert all(each["parameters"] > 0 and each["steps"] == 1 for each in learned)
    assert list(found["prefix_tuning"]["losses"]) == ["0.01", "0.1"]
    assert all(each["eval_loss"] == min(each["losses"].values()) for each in learned)
    assert all("eval_well_formed" in each and "eval_loss" in each for each in found.values())
    with pytest.raises(SystemExit, match=r"another seed \(0, not 1\)"):
        run_main(monkeypatch, benchmarks.adaptations.main, *given, "--seed", 1)
