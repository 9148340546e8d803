"""The real command lines, end to end on a tiny backbone."""

import json
from pathlib import Path
from typing import Any

import pytest
from peft import PeftModel
from safetensors import safe_open

from models.condition_extractor import ConditionExtractor
from models.files.backbone import load_backbone
from models.graph_llm import GraphLLM
from models.helper import Helper
from models.text_to_triples import TextToTriples
from tests import processes
from tests.processes import fresh
from tests.training.conftest import ROOT, Run

LAUNCH = ("-m", "accelerate.commands.launch", "--cpu")
TINY = {
    "train_t2t.py": "t2t_tiny.yaml",
    "train_ras.py": "ras_tiny.yaml",
    "train_tri_rag.py": "tri_rag_tiny.yaml",
    "train_helper.py": "helper_tiny.yaml",
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def arguments(script: str, data: Path, backbone: Path, *overrides: str) -> list[str]:
    fixed = [f"data.train={data}", f"data.dev={data}", f"model.backbone={backbone}"]
    config = ROOT / "configs" / TINY[script]
    return ["--config", str(config), "--json", "output_dir=out", *fixed, *overrides]


def last_json(output: str) -> dict[str, Any]:
    return dict(json.loads(output.splitlines()[-1]))


@pytest.mark.parametrize("script", TINY)
def test_help(script: str, tmp_path: Path) -> None:
    start = fresh if script == "train_ras.py" else processes.run  # One imports everything itself.
    done = start(ROOT / "training" / script, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "--config" in done.stdout and "key=value" in done.stdout


def test_t2t_trains_saves_and_resumes(
    run_script: Run, triples_file: Path, backbone: Path, tmp_path: Path
) -> None:
    steps = ("train.max_steps=4", "train.save_steps=2", "validation.samples=2")
    given = arguments("train_t2t.py", triples_file, backbone, *steps)
    done = run_script("train_t2t.py", *given, cwd=tmp_path, launch=LAUNCH)
    assert done.returncode == 0, done.stderr
    assert "⟦(S> Ada" in done.stdout and "expected duration" in done.stdout
    assert "Trainable parameters" in done.stdout and "tokens/s" in done.stderr
    figures = last_json(done.stdout)
    assert figures["steps"] == 4 and "eval_triple_f1" in figures and "eval_rougeL" in figures
    out = tmp_path / "out"
    assert json.loads((out / "metrics.json").read_text())["eval_loss"] == figures["eval_loss"]
    assert list((out / "tensorboard").glob("events*"))
    assert not list(out.glob(".*"))
    check_holds_no_frozen_weight(out, backbone)
    TextToTriples.from_pretrained(out)

    more = arguments(
        "train_t2t.py", triples_file, backbone, *steps, "train.resume=out/checkpoint-2"
    )
    resumed = run_script("train_t2t.py", *more, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    # Same data order, optimizer, schedule and random state: the same end.
    assert last_json(resumed.stdout)["eval_loss"] == pytest.approx(figures["eval_loss"], abs=1e-6)


def test_ras_trains_and_saves(
    run_script: Run, ras_file: Path, backbone: Path, tmp_path: Path
) -> None:
    steps = ("train.max_steps=3", "train.graph_learning_rate=0.001", "train.eval_steps=2")
    given = arguments("train_ras.py", ras_file, backbone, *steps)
    done = run_script("train_ras.py", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = last_json(done.stdout)
    assert {"eval_plan_accuracy", "eval_plan_macro_f1", "eval_answer_f1"} <= figures.keys()
    assert "eval_loss" in done.stderr
    check_holds_no_frozen_weight(tmp_path / "out", backbone)
    assert GraphLLM.from_pretrained(tmp_path / "out").graph_encoder is not None


def test_tri_rag_trains_saves_and_resumes(
    run_script: Run, conditions_file: Path, backbone: Path, tmp_path: Path
) -> None:
    steps = ("train.max_steps=4", "train.save_steps=2", "validation.samples=2")
    given = arguments("train_tri_rag.py", conditions_file, backbone, *steps)
    done = run_script("train_tri_rag.py", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "⟦[C] Ada" in done.stdout and "prompt.embeddings" in done.stdout
    figures = last_json(done.stdout)
    assert "eval_well_formed" in figures and "eval_condition_f1" in figures
    with safe_open(tmp_path / "out" / "soft_prompts.safetensors", "np") as stored:
        assert stored.get_slice("embeddings").get_shape() == [2, 4, 64]
    more = arguments(
        "train_tri_rag.py", conditions_file, backbone, *steps, "train.resume=out/checkpoint-2"
    )
    resumed = run_script("train_tri_rag.py", *more, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert last_json(resumed.stdout)["eval_loss"] == pytest.approx(figures["eval_loss"], abs=1e-6)


def test_a_helper_trains_saves_and_resumes(
    run_script: Run, helper_file: Path, backbone: Path, tmp_path: Path
) -> None:
    steps = ("train.max_steps=4", "train.save_steps=2", "validation.samples=2")
    given = arguments("train_helper.py", helper_file, backbone, *steps)
    done = run_script("train_helper.py", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "⟦Film" in done.stdout
    figures = last_json(done.stdout)
    assert figures["steps"] == 4
    assert {"eval_exact_match", "eval_token_f1", "eval_triplet_f1"} <= figures.keys()
    check_holds_no_frozen_weight(tmp_path / "out", backbone)
    assert Helper.from_pretrained(tmp_path / "out").settings.tasks == ("decompose",)
    more = arguments(
        "train_helper.py", helper_file, backbone, *steps, "train.resume=out/checkpoint-2"
    )
    resumed = run_script("train_helper.py", *more, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert last_json(resumed.stdout)["eval_loss"] == pytest.approx(figures["eval_loss"], abs=1e-6)


def test_training_stops_where_validation_no_longer_improves(
    run_script: Run, conditions_file: Path, backbone: Path, tmp_path: Path
) -> None:
    changes = (
        *("train.max_steps=9", "train.eval_steps=1", "train.early_stopping_patience=2"),
        *("train.learning_rate=0.0", "validation.samples=0"),
    )
    given = arguments("train_tri_rag.py", conditions_file, backbone, *changes)
    done = run_script("train_tri_rag.py", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = last_json(done.stdout)
    assert (figures["steps"], figures["best_step"]) == (3, 1)
    assert figures["eval_loss"] == pytest.approx(figures["best_loss"])


@pytest.mark.parametrize("adaptation", ["prefix_tuning", "lora"])
def test_other_adaptations_train_from_the_same_script(
    adaptation: str, run_script: Run, conditions_file: Path, backbone: Path, tmp_path: Path
) -> None:
    changes = ("train.max_steps=2", "validation.samples=0", f"prompt.adaptation={adaptation}")
    given = arguments("train_tri_rag.py", conditions_file, backbone, *changes)
    done = run_script("train_tri_rag.py", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    PeftModel.from_pretrained(load_backbone(str(backbone)), str(tmp_path / "out"))
    ConditionExtractor.from_pretrained(tmp_path / "out")


def test_a_pretrained_backbone_is_measured(
    run_script: Run, conditions_file: Path, backbone: Path, tmp_path: Path
) -> None:
    changes = ("prompt.adaptation=pretrained", "model.max_input_tokens=2000")
    given = arguments("train_tri_rag.py", conditions_file, backbone, *changes)
    measured = run_script("train_tri_rag.py", *given, "train.num_train_epochs=0", cwd=tmp_path)
    assert measured.returncode == 0, measured.stderr
    assert last_json(measured.stdout)["eval_well_formed"] == 0.0


@pytest.mark.parametrize("script", ["train_t2t.py", "train_tri_rag.py"])
def test_a_limit_without_room_for_a_passage_ends_in_one_line(
    script: str,
    run_script: Run,
    triples_file: Path,
    conditions_file: Path,
    backbone: Path,
    tmp_path: Path,
) -> None:
    data = triples_file if script == "train_t2t.py" else conditions_file
    done = run_script(
        script, *arguments(script, data, backbone, "model.max_input_tokens=5"), cwd=tmp_path
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"{script}: ") and f"{TINY[script]}: model.max_input_tokens is 5" in said
    assert "Set it to" in said
    assert not list((tmp_path / "out").glob("*.safetensors"))


def check_holds_no_frozen_weight(folder: Path, backbone: Path) -> None:
    """Only adapters and graph encoder are stored, and plain PEFT loads the adapters."""
    for path in folder.rglob("*.safetensors"):
        with safe_open(path, "pt") as weights:
            names = list(weights.keys())
        if path.name == "adapter_model.safetensors":
            assert names and all("lora_" in name for name in names)
    assert not list(folder.rglob("*.bin")) and not list(folder.rglob("*.pt*"))
    PeftModel.from_pretrained(load_backbone(str(backbone)), str(folder))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("train.foo=1",), "unknown key 'train.foo'"),
        (("train.num_processes=2",), "train.num_processes=2, but 1 started"),
        (("model.max_output_tokens=10",), "the label is cut away in 8 samples: t0, t1"),
        (("train.resume=nowhere",), "holds no checkpoint"),
        (("data.dev=missing.jsonl",), "missing.jsonl: no such file"),
    ],
)
def test_bad_input_ends_with_one_line(
    overrides: tuple[str, ...],
    said: str,
    run_script: Run,
    triples_file: Path,
    backbone: Path,
    tmp_path: Path,
) -> None:
    given = arguments("train_t2t.py", triples_file, backbone, *overrides)
    done = run_script("train_t2t.py", *given, cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
