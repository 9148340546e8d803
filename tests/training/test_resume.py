"""A training that was stopped and resumed is the training that was not, bit for bit."""

import json
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from models.files.checkpoint import TruncatedCheckpointError
from tests.training.conftest import ROOT, Settings
from tests.training.runs import course, start, steps_logged, train, weights
from training.saving.checkpoints import (
    ResumeError,
    best_step,
    checkpoints,
    drop,
    resume_folder,
    verify_checkpoint,
)

CONFIGS = ROOT / "configs"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "split",
    [
        # 8 samples: the last step of each epoch is short, and falls into an accumulation.
        ("train.batch_size=1", "train.gradient_accumulation_steps=3", "train.logging_steps=2"),
        pytest.param(
            ("train.batch_size=2", "train.num_workers=2", "train.group_by_length=false"),
            marks=pytest.mark.exhaustive,
        ),
        ("train.batch_size=3", "train.early_stopping_patience=1", "validation.samples=0"),
    ],
    ids=["accumulation", "workers", "validation each epoch"],
)
def test_resumed_after_any_step_it_is_the_same_training(
    split: tuple[str, ...], settings: Settings, triples_file: Path, tmp_path: Path
) -> None:
    given = ("train.num_train_epochs=2", f"data.dev={triples_file}", "validation.samples=0", *split)
    train(settings(*given))
    run, whole = tmp_path / "out", tmp_path / "whole"
    run.rename(whole)
    for checkpoint in checkpoints(whole):
        run.mkdir()
        if (whole / "best").is_dir():
            shutil.copytree(whole / "best", run / "best")
        train(settings(*given, f"train.resume={checkpoint}"))
        assert course(run) == course(whole), checkpoint.name
        assert weights(run) == weights(whole), checkpoint.name
        shutil.rmtree(run)


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", ["train_t2t", "train_tri_rag", "train_ras"])
def test_killed_at_random_moments_nothing_is_lost(
    script: str,
    triples_file: Path,
    conditions_file: Path,
    ras_file: Path,
    backbone: Path,
    tmp_path: Path,
) -> None:
    kind = script.removeprefix("train_")
    data = {"t2t": triples_file, "tri_rag": conditions_file, "ras": ras_file}[kind]
    workers = {"t2t": 2, "tri_rag": 0, "ras": 2}[kind]
    command = [
        f"{script}.py",
        *("--config", str(CONFIGS / f"{kind}_tiny.yaml"), f"data.train={data}"),
        *(f"model.backbone={backbone}", "model.lora.dropout=0.2", "train.batch_size=1"),
        *("train.gradient_accumulation_steps=2", f"train.num_workers={workers}"),
        *("train.max_steps=25", "train.save_steps=4", "train.logging_steps=1"),
        *("train.tensorboard=false", "train.resume=auto"),
        *(["graph.dropout=0.2"] if kind == "ras" else []),
    ]
    chosen = random.Random(kind)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = start(*command, f"output_dir={whole}")
    assert process.wait() == 0, process.errors
    for _ in range(2):
        process = start(*command, f"output_dir={killed}")
        last = chosen.randrange(3, 24)
        while process.poll() is None and steps_logged(killed) < last:
            time.sleep(0.01)
        time.sleep(chosen.random() / 20)
        process.send_signal(signal.SIGKILL)
        process.wait()
    process = start(*command, f"output_dir={killed}")
    assert process.wait() == 0, process.errors
    assert course(killed) == course(whole)
    assert weights(killed) == weights(whole)
    for checkpoint in checkpoints(killed):
        verify_checkpoint(checkpoint)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(settings("train.max_steps=3"))
    run = tmp_path / "out"
    manifest = json.loads((run / "checkpoint-3/training_state/manifest.json").read_text())
    stored = sum(p.stat().st_size for p in (run / "checkpoint-3").rglob("*") if p.is_file())
    own = (run / "checkpoint-3/training_state/manifest.json").stat().st_size
    assert manifest["checkpoint_bytes"] == stored - own
    whole = weights(run)
    damaged = run / "checkpoint-3/training_state/optimizer.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    assert resume_folder("last", str(run)) == run / "checkpoint-2"
    assert "optimizer.safetensors is not what was written" in caplog.text
    with pytest.raises(TruncatedCheckpointError, match="checkpoint-3"):
        resume_folder(str(run / "checkpoint-3"), str(run))
    train(settings("train.max_steps=3", "train.resume=last"))
    assert weights(run) == whole
    verify_checkpoint(run / "checkpoint-3")


def test_the_best_is_kept_and_a_course_gone_back_on_is_dropped(tmp_path: Path) -> None:
    for step in (2, 4, 6, 8, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
    history = [{"step": 4, "eval_loss": 1.0}, {"step": 6, "eval_loss": 3.0}, {"step": 6, "loss": 0}]
    assert best_step(history) == 4 and best_step(history[2:]) is None
    drop(tmp_path / "checkpoint-8", 2, best_step(history))
    assert [p.name for p in checkpoints(tmp_path)] == [f"checkpoint-{n}" for n in (4, 6, 8)]
    drop(tmp_path / "checkpoint-8", 1, None)
    assert [p.name for p in checkpoints(tmp_path)] == ["checkpoint-8"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("train.batch_size=2", "samples a step 4 there and 2 here"),
        ("train.seed=7", "train.seed 0 there and 7 here"),
        ("data.max_train_samples=6", "training samples"),
        ("model.lora.targets=[q_proj]", ""),
    ],
)
def test_another_order_of_samples_is_refused(
    changed: str, said: str, settings: Settings, tmp_path: Path
) -> None:
    train(settings("train.max_steps=1"))
    resume = f"train.resume={tmp_path / 'out' / 'checkpoint-1'}"
    if not said:
        # The adapter is the checkpoint's; the recipe does not say otherwise.
        train(settings("train.max_steps=2", resume, changed))
        return
    with pytest.raises(ResumeError, match=said):
        train(settings("train.max_steps=2", resume, changed))
