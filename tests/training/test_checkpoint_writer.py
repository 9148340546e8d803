"""Checkpoints are copied at once and written in the step or beside it, whole or not at all."""

import errno
import json
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from models.condition_extractor import (
    Adaptation,
    ConditionExtractor,
    ConditionExtractorConfig,
)
from models.files.checkpoint import CheckpointWriteError
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.parts.graph_encoder import GraphEncoderConfig
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from tests.processes import Process
from tests.training.conftest import ROOT, Settings
from tests.training.runs import course, start, steps_logged, train, weights
from training.loop.callbacks import History
from training.loop.guards import NonFiniteLossError
from training.loop.preemption import StoppedBySignal, listening
from training.loop.trainer import ComponentTrainer
from training.saving import state as training_state
from training.saving.checkpoints import (
    checkpoint_step,
    checkpoints,
    resume_folder,
    verify_checkpoint,
)
from training.saving.state import CheckpointWriter, ComponentCopy

pytestmark = pytest.mark.timeout(300)
Module = Callable[[str], Any]
BACKGROUND = "train.background_saves=true"
GRAPH = GraphEncoderConfig(input_dim=8, hidden_dim=8, num_layers=1, num_heads=2, projector_dim=8)
MODULES: dict[str, Module] = {
    "all weights": lambda name: TextToTriples.from_config(TextToTriplesConfig(name, lora_rank=0)),
    "adapter": lambda name: TextToTriples.from_config(TextToTriplesConfig(name, lora_rank=4)),
    "graph": lambda name: GraphLLM.from_config(GraphLLMConfig(name, graph=GRAPH)),
    "soft prompt": lambda name: ConditionExtractor.from_config(
        ConditionExtractorConfig(name, Adaptation.soft_prompt)
    ),
    "prefix": lambda name: ConditionExtractor.from_config(
        ConditionExtractorConfig(name, Adaptation.prefix_tuning)
    ),
}


def test_one_write_at_a_time_in_the_order_given() -> None:
    done: list[int] = []
    go_on = threading.Event()
    writer = CheckpointWriter(in_background=True)

    def first() -> None:
        go_on.wait(30)
        done.append(1)

    writer.submit(first)
    writer.raise_failure()
    assert not done
    threading.Timer(0.1, go_on.set).start()
    with writer:
        writer.submit(lambda: done.append(2))
        assert done[0] == 1
    assert done == [1, 2]


def test_in_the_step_a_write_is_done_or_has_failed_when_submit_returns() -> None:
    done: list[int] = []
    writer = CheckpointWriter(in_background=False)

    def slow() -> None:
        time.sleep(0.1)
        done.append(1)

    def fail() -> None:
        raise CheckpointWriteError("cannot be written")

    writer.submit(slow)
    assert done == [1]
    with pytest.raises(CheckpointWriteError):
        writer.submit(fail)
    writer.submit(slow)
    assert done == [1, 1]


def test_a_failure_is_raised_once_and_never_hides_the_error_of_the_block(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cause = OSError(errno.EIO, "broken disk")

    def fail() -> None:
        raise CheckpointWriteError("cannot be written") from cause

    writer = CheckpointWriter(in_background=True)
    writer.submit(fail)
    with pytest.raises(CheckpointWriteError, match="cannot be written") as error:
        writer.submit(lambda: pytest.fail("was begun"))
    assert error.value.__cause__ is cause
    writer.wait()
    with pytest.raises(CheckpointWriteError), writer:
        writer.submit(fail)
    with pytest.raises(KeyError), writer:
        writer.submit(fail)
        raise KeyError
    assert "cannot be written" in caplog.text
    writer.wait()


@pytest.mark.parametrize("kind", MODULES)
def test_a_copy_saves_what_was_trained_when_it_was_taken(
    kind: str, backbone: Path, tmp_path: Path
) -> None:
    module = MODULES[kind](str(backbone))
    copied = ComponentCopy(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 1 if parameter.requires_grad else 0
    module.save_pretrained(tmp_path / "module")
    copied.take(module)
    nn.init.zeros_(next(p for p in module.parameters() if p.requires_grad))
    held = list(copied.component.parameters())
    assert all(p.is_meta != p.requires_grad for p in held)
    with copied.released():
        copied.save_pretrained(tmp_path / "copy")
    assert not any(p.numel() for p in held if p.requires_grad)
    assert files(tmp_path / "copy") == files(tmp_path / "module")


def files(folder: Path) -> dict[str, Any]:
    """Contents by name; of JSON the words alone, since PEFT writes a set in any order."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): sorted(path.read_text().replace(",", "").split())
        if path.suffix == ".json"
        else path.read_bytes()
        for path in found
        if path.name != "manifest.json"
    }


def slow_write(monkeypatch: pytest.MonkeyPatch, until: Callable[[], Any]) -> None:
    """Make the first checkpoint wait in the middle of its files."""
    write, waited = training_state.write_optimizer, threading.Event()

    def late(*arguments: Any) -> None:
        if not waited.is_set():
            waited.set()
            until()
        write(*arguments)

    monkeypatch.setattr("training.saving.manager.write_optimizer", late)


def test_steps_go_on_while_a_checkpoint_is_written_and_do_not_reach_into_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("train.max_steps=3", "train.save_steps=2", BACKGROUND)
    train(settings(*given))
    run, whole = tmp_path / "out", tmp_path / "whole"
    run.rename(whole)
    third_step = threading.Event()
    on_log = History.on_log

    def with_event(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        on_log(self, args, state, control, **kwargs)
        if state.global_step == 3:
            third_step.set()

    monkeypatch.setattr(History, "on_log", with_event)
    slow_write(monkeypatch, lambda: third_step.wait(250) or pytest.fail("the steps stood still"))
    train(settings(*given))
    written = ("adapter_model.safetensors", "training_state/optimizer.safetensors")
    for name in written:
        ours, wanted = (folder / "checkpoint-2" / name for folder in (run, whole))
        assert ours.read_bytes() == wanted.read_bytes()
    stored = json.loads((run / "checkpoint-2/training_state/trainer_state.json").read_text())
    assert stored["global_step"] == max(entry["step"] for entry in stored["log_history"]) == 2
    assert weights(run) == weights(whole)


@pytest.mark.parametrize("background", [True, False])
def test_a_disk_that_fills_up_stops_the_training_at_the_next_step(
    background: bool, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    slow_write(monkeypatch, fill)
    way = f"train.background_saves={str(background).lower()}"
    with pytest.raises(CheckpointWriteError, match=r"checkpoint-2: .* the disk is full") as error:
        train(settings("train.max_steps=40", "train.save_steps=2", way))
    assert isinstance(error.value.__cause__, OSError)
    assert 2 <= steps_logged(tmp_path / "out") < (20 if background else 3)
    assert not checkpoints(tmp_path / "out") and not list((tmp_path / "out").glob(".check*"))


def test_before_a_training_ends_its_checkpoint_is_written(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = ("train.max_steps=40", "train.save_steps=2", BACKGROUND)
    with monkeypatch.context() as patch, listening("USR1") as stop:

        def stop_and_wait() -> None:
            stop.note(signal.SIGTERM)
            time.sleep(1)

        slow_write(patch, stop_and_wait)
        with pytest.raises(StoppedBySignal):
            train(settings(*slow), stop)
    last = resume_folder("last", str(tmp_path / "out"))
    assert last is not None and 2 < checkpoint_step(last) < 40
    shutil.rmtree(tmp_path / "out")

    check = ComponentTrainer._get_grad_norm

    def not_finite(self: ComponentTrainer, *args: Any, **kwargs: Any) -> Any:
        if self.state.global_step == 2:
            raise NonFiniteLossError("the loss", 3, ["t0"])
        return check(self, *args, **kwargs)

    monkeypatch.setattr(ComponentTrainer, "_get_grad_norm", not_finite)
    slow_write(monkeypatch, lambda: time.sleep(1))
    with pytest.raises(NonFiniteLossError):
        train(settings(*slow))
    assert [folder.name for folder in checkpoints(tmp_path / "out")] == ["checkpoint-2"]
    verify_checkpoint(tmp_path / "out" / "checkpoint-2")


SLOW_DISK = """
import os, runpy, sys, time
sync = os.fsync
def slow(descriptor):
    time.sleep(0.02)
    sync(descriptor)
os.fsync = slow
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writing_the_checkpoints_before_are_whole(
    triples_file: Path, backbone: Path, tmp_path: Path
) -> None:
    wrapper = tmp_path / "slow_disk.py"
    wrapper.write_text(SLOW_DISK)
    script = str(ROOT / "training/train_t2t.py")
    command = [
        *("--config", str(ROOT / "configs/t2t_tiny.yaml"), f"data.train={triples_file}"),
        *(f"data.dev={triples_file}", "train.eval_steps=6", "validation.samples=0"),
        *(f"model.backbone={backbone}", "model.lora.dropout=0.2", "train.batch_size=1"),
        *("train.max_steps=28", "train.save_steps=3", "train.save_total_limit=2"),
        *("train.logging_steps=1", "train.tensorboard=false", "train.resume=auto", BACKGROUND),
    ]
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    def begin(out: Path) -> Process:
        return start(wrapper, script, *command, f"output_dir={out}")

    assert begin(whole).wait() == 0

    def is_writing() -> bool:
        return bool(list(killed.glob(".checkpoint-*")))

    chosen = random.Random(0)
    in_the_middle = 0
    for last in (6, 13, 20):
        process = begin(killed)
        while process.poll() is None and steps_logged(killed) < last:
            time.sleep(0.01)
        while process.poll() is None and not is_writing():
            process.send_signal(signal.SIGCONT)
            while process.poll() is None and not is_writing():
                time.sleep(0.001)
            time.sleep(chosen.random() / 10)
            # A machine under load may look too late: the next one then.
            process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGKILL)
        process.wait()
        in_the_middle += is_writing()
        for checkpoint in checkpoints(killed):
            verify_checkpoint(checkpoint)
    assert in_the_middle and checkpoints(killed)
    assert begin(killed).wait() == 0
    assert course(killed) == course(whole)
    assert weights(killed) == weights(whole)
    # The same ones are kept: the last two, and the best.
    assert [f.name for f in checkpoints(killed)] == [f.name for f in checkpoints(whole)]
