"""What is looked at before a step, a checkpoint or a run, and how it is said."""

import os
import shutil
import time
from collections import namedtuple
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from accelerate import Accelerator

from models.files.checkpoint import CheckpointWriteError
from tests.processes import begin
from tests.training.conftest import ROOT, Run, Settings
from tests.training.runs import start, steps_logged, train
from training.loop.guards import AT_LEAST, LossSpikeError, StepGuard
from training.run.run_folder import RunFolderError, claimed
from training.saving.checkpoints import check_room, checkpoints

pytestmark = pytest.mark.timeout(300)
Usage = namedtuple("Usage", "total used free")
CLAIM = """
import sys, time
from pathlib import Path
from training.run.run_folder import claimed
with claimed(Path(sys.argv[1]), "auto"):
    print("claimed", flush=True)
    time.sleep(60)
"""


def check(guard: StepGuard, step: int, *losses: float, norm: float = 1.0) -> None:
    ids = [[f"s{step}/{i}"] for i in range(len(losses))]
    guard.check(step, [torch.tensor(loss) for loss in losses], ids, norm)


def test_a_loss_far_above_the_usual_stops_before_the_step() -> None:
    guard = StepGuard(Accelerator(cpu=True), 3.0)
    for step in range(AT_LEAST):
        check(guard, step, 1.0, 1.0 + step)  # a start is no spike
    usual = sorted(guard.recent)
    check(guard, 20, 1.0, 2.0)
    with pytest.raises(LossSpikeError, match=r"loss is 40 at step 21.* s21/0, s21/1\.") as error:
        check(guard, 21, 20.0, 20.0)
    assert error.value.sample_ids == ["s21/0", "s21/1"]
    assert 40.0 not in guard.recent and len(guard.recent) == len(usual) + 1
    never = StepGuard(Accelerator(cpu=True), 0.0)
    for loss in [*[1.0] * AT_LEAST, 1000.0]:
        check(never, 1, loss)


def test_a_disk_without_room_is_found_before_the_first_step(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 1_000_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1, 1, free))
    with pytest.raises(CheckpointWriteError, match=r"takes about 1\.50 MB .* has 1\.00 MB left"):
        check_room(tmp_path, 500_000, "")
    with pytest.raises(CheckpointWriteError, match="Nothing has been trained yet"):
        train(settings("model.lora.rank=64"))
    assert not checkpoints(tmp_path / "out")


def test_two_runs_in_one_folder_and_a_lock_left_by_a_kill(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path.with_suffix(".py")
    program.write_text(CLAIM)
    first = begin(program, tmp_path)
    while first.poll() is None and not first.output.endswith("\n"):
        time.sleep(0.01)
    assert first.output == "claimed\n", first.errors
    said = rf"process {first.pid} on .* is training there now"
    with pytest.raises(RunFolderError, match=said), claimed(tmp_path, "auto"):
        pass
    first.kill()
    first.wait()
    (tmp_path / ".checkpoint-4.x").mkdir()
    with claimed(tmp_path, "auto"):
        assert f"process {first.pid} on" in caplog.text
        assert not list(tmp_path.glob(".checkpoint*"))
    caplog.clear()
    with claimed(tmp_path, "auto"):
        assert not caplog.text


def test_a_new_training_overwrites_no_unfinished_one(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-4").mkdir()
    said = r"holds checkpoint-4 of a training that has not finished\. Go on with train\.resume=last"
    with pytest.raises(RunFolderError, match=said), claimed(tmp_path, ""):
        pass
    with claimed(tmp_path, "last"):
        assert (tmp_path / "checkpoint-4").is_dir()
    metrics = tmp_path / "metrics.json"
    metrics.write_text("{}")
    os.utime(metrics, (2e9, 2e9))
    with claimed(tmp_path, ""):
        assert not checkpoints(tmp_path)


@pytest.mark.slow
def test_a_dead_data_worker_ends_with_one_line(
    triples_file: Path, backbone: Path, tmp_path: Path
) -> None:
    process = start(
        "train_t2t.py",
        *("--config", str(ROOT / "configs/t2t_tiny.yaml"), f"output_dir={tmp_path / 'out'}"),
        *(f"data.train={triples_file}", f"model.backbone={backbone}", "train.logging_steps=1"),
        *("train.max_steps=100000", "train.num_workers=1", "train.batch_size=1"),
    )
    while process.poll() is None and steps_logged(tmp_path / "out") < 3:
        time.sleep(0.02)
    killed = 0
    # One that is killed as its epoch ends is missed by nobody.
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children():
                child.kill()
                killed += 1
        time.sleep(0.05)
    assert killed and process.wait() == 1
    output = process.errors
    begun = "train_t2t.py: a process that collates batches died: "
    said = [line for line in output.splitlines() if line.startswith(begun)]
    assert len(said) == 1 and "train.num_workers" in said[0], output[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "recipe", "overrides", "said"),
    [
        ("train_ras.py", "ras_tiny", ("train.resume=t2t/checkpoint-1",), "'ras' is needed here"),
        ("train_t2t.py", "ras_tiny", (), "is a recipe for train_ras.py"),
        ("train_t2t.py", "t2t_tiny", ("train.resume=last",), "holds no checkpoint"),
    ],
)
def test_what_is_of_another_component_is_named(
    script: str,
    recipe: str,
    overrides: tuple[str, ...],
    said: str,
    settings: Settings,
    run_script: Run,
    ras_file: Path,
    backbone: Path,
    tmp_path: Path,
) -> None:
    train(settings(f"output_dir={tmp_path / 't2t'}", "train.max_steps=1"))
    given: list[Any] = [f"data.train={ras_file}", f"model.backbone={backbone}", "output_dir=out"]
    config = str(ROOT / "configs" / f"{recipe}.yaml")
    done = run_script(script, "--config", config, *given, *overrides, cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
