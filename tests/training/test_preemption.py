"""Signals: the step is finished, a checkpoint written, and the resumed training is the same."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.training.conftest import ROOT, Settings
from tests.training.runs import course, start, steps_logged, train, weights
from training.loop.callbacks import History
from training.loop.preemption import STOPPED, StoppedBySignal, StopRequest, listening, requeue
from training.loop.trainer import ComponentTrainer
from training.recipe.settings import ConfigError
from training.saving import state as training_state
from training.saving.checkpoints import checkpoints, resume_folder, verify_checkpoint

pytestmark = pytest.mark.timeout(300)


def signals_after(step: int, monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Run an action, once, when a step has been logged."""
    on_log = History.on_log
    done: list[int] = []

    def with_action(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        on_log(self, args, state, control, **kwargs)
        if state.global_step == step and not done:
            done.append(step)
            action()

    monkeypatch.setattr(History, "on_log", with_action)


def kill(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_stopped_after_any_step_it_goes_on_as_the_same_training(
    settings: Settings, triples_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = (
        *("train.num_train_epochs=2", "train.batch_size=2", "train.gradient_accumulation_steps=2"),
        *(f"data.dev={triples_file}", "validation.samples=0", "train.early_stopping_patience=3"),
        "train.save_steps=100",
    )
    train(settings(*given))
    run, whole = tmp_path / "out", tmp_path / "whole"
    run.rename(whole)
    # Noted while step n + 1 runs: in an epoch, at its end, before the last step, after it.
    for step in (0, 1, 2, 3, 4):
        with monkeypatch.context() as patch, listening("USR1") as stop:
            signals_after(step, patch, lambda: kill(signal.SIGUSR1))
            if step == 0:
                kill(signal.SIGTERM)
            with pytest.raises(StoppedBySignal, match=r"stopped by SIG(TERM|USR1)"):
                train(settings(*given), stop)
        saved = [folder.name for folder in checkpoints(run)]
        # After step 4 the training is over, and only the last validation is left out.
        assert saved == ([] if step == 0 else [f"checkpoint-{min(step + 1, 4)}"])
        train(settings(*given, "train.resume=auto"))
        assert course(run) == course(whole), step
        assert weights(run) == weights(whole), step
        shutil.rmtree(run)


@pytest.mark.slow
def test_a_second_signal_does_a_checkpoint_no_harm(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = training_state.write_optimizer

    def interrupted(*arguments: Any) -> None:
        kill(signal.SIGTERM)
        write(*arguments)
        kill(signal.SIGUSR1)

    monkeypatch.setattr("training.saving.manager.write_optimizer", interrupted)
    with listening("USR1") as stop, pytest.raises(StoppedBySignal, match="SIGTERM after step 2"):
        signals_after(1, monkeypatch, lambda: kill(signal.SIGTERM))
        train(settings("train.max_steps=3"), stop)
    folder = resume_folder("auto", str(tmp_path / "out"))
    assert folder is not None
    verify_checkpoint(folder)


@pytest.mark.slow
def test_a_signal_in_the_last_validation_ends_it_at_once(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, listening("USR1") as stop:

        def evaluate(self: ComponentTrainer) -> dict[str, float]:
            kill(signal.SIGUSR1)
            raise AssertionError("the signal did not end the validation")

        patch.setattr(ComponentTrainer, "evaluate", evaluate)
        with pytest.raises(StoppedBySignal, match="SIGUSR1 after the last step"):
            train(settings("train.max_steps=2"), stop)
    before = weights(tmp_path / "out")
    assert train(settings("train.max_steps=2", "train.resume=auto"))["steps"] == 2
    assert weights(tmp_path / "out") == before


@pytest.mark.slow
def test_data_workers_outlive_a_signal_to_the_whole_job(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    # The fork server of the tests (tests/processes.py) is no part of the job.
    others = {child.pid for child in psutil.Process().children()}

    def signal_all() -> None:
        for child in psutil.Process().children():
            if child.pid in others:
                continue
            seen.append(child.pid)
            child.send_signal(signal.SIGUSR1)
            child.send_signal(signal.SIGTERM)
        kill(signal.SIGUSR1)
        time.sleep(0.5)

    with listening("USR1") as stop, pytest.raises(StoppedBySignal):
        signals_after(1, monkeypatch, signal_all)
        train(settings("train.num_workers=2", "train.batch_size=1", "train.max_steps=8"), stop)
    assert len(seen) >= 2
    assert [folder.name for folder in checkpoints(tmp_path / "out")][-1] == "checkpoint-2"


def test_listening_ends_with_its_block() -> None:
    before = signal.getsignal(signal.SIGUSR2)
    with listening("SIGUSR2") as stop:
        kill(signal.SIGUSR2)
        kill(signal.SIGTERM)
        assert stop.received is signal.SIGUSR2 and stop.is_to_requeue
    assert signal.getsignal(signal.SIGUSR2) is before
    assert not StopRequest().is_to_requeue
    with pytest.raises(ConfigError, match=r"train\.stop_signal=USR9: no such signal"):
        listening("USR9").__enter__()


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scontrol that writes down what it is asked; returns where."""
    program, asked = tmp_path / "bin" / "scontrol", tmp_path / "asked"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return asked


def test_the_right_job_is_requeued(scontrol: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert not requeue()
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert requeue()
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "15")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    assert requeue()
    assert scontrol.read_text().splitlines() == ["requeue 17", "requeue 15_2"]
    scontrol.parent.joinpath("bin/scontrol").write_text("#!/bin/sh\necho no >&2; exit 1\n")
    assert not requeue()


@pytest.mark.exhaustive
def test_a_job_that_slurm_ends_at_once_is_requeued_all_the_same(
    scontrol: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    program = scontrol.parent / "bin/scontrol"
    program.write_text("#!/bin/sh\nkill -TERM $$\n")
    with caplog.at_level("INFO"):
        assert requeue()
    assert [record.levelname for record in caplog.records] == ["INFO"]
    # SLURM's SIGKILL can come before anything is said of the answer.
    program.write_text("#!/bin/sh\nkill -KILL $PPID\n")
    asks = "import logging; logging.basicConfig(level=logging.INFO)\n"
    asks += "from training.loop.preemption import requeue; requeue()"
    command = [sys.executable, "-c", asks]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL
    assert "asking SLURM to requeue job 17" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_the_command_exits_with_its_code_and_requeues_once(
    number: signal.Signals, scontrol: Path, triples_file: Path, backbone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start(
        "train_t2t.py",
        *("--config", str(ROOT / "configs/t2t_tiny.yaml"), f"output_dir={out}"),
        *(f"data.train={triples_file}", f"model.backbone={backbone}", "train.logging_steps=1"),
        *("train.max_steps=100000", "train.slurm_requeue=true", "train.num_workers=1"),
        SLURM_JOB_ID="17",
    )
    while process.poll() is None and steps_logged(out) < 2:
        time.sleep(0.02)
    process.send_signal(number)
    process.send_signal(number)
    assert process.wait() == STOPPED
    assert f"stopped by {number.name} after step" in process.errors
    folder = resume_folder("last", str(out))
    assert folder is not None
    verify_checkpoint(folder)
    asked = scontrol.read_text() if scontrol.is_file() else ""
    # SIGTERM is how a user or SLURM ends a job; SLURM requeues what it preempts itself.
    assert asked == ("requeue 17\n" if number is signal.SIGUSR1 else "")
