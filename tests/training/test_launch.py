"""What was launched is compared with what was asked for, and processes with each other."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from accelerate.utils import DistributedType
from transformers import TrainingArguments

from training.recipe import agreement
from training.recipe.agreement import LaggingDiskError, require_same
from training.run.arguments import check_launch, keep_to_one_gpu
from training.saving.sharding import LaunchError


@pytest.fixture
def arguments(tmp_path: Path) -> TrainingArguments:
    return TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")


def test_a_process_that_sees_several_gpus_trains_on_one(
    arguments: TrainingArguments, caplog: pytest.LogCaptureFixture
) -> None:
    arguments._n_gpu = 4
    keep_to_one_gpu(arguments)
    assert arguments.n_gpu == 1
    assert arguments.train_batch_size == arguments.per_device_train_batch_size
    assert "4 GPUs are visible" in caplog.text and "accelerate launch" in caplog.text
    caplog.clear()
    keep_to_one_gpu(arguments)
    assert not caplog.text


def test_other_numbers_of_processes_are_refused(
    arguments: TrainingArguments, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_launch(arguments, DistributedType.NO, 1)
    with pytest.raises(LaunchError, match=r"train\.num_processes=2, but 1 started"):
        check_launch(arguments, DistributedType.NO, 2)
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "2")
    with pytest.raises(LaunchError, match="WORLD_SIZE=2, but the process group has 1"):
        check_launch(arguments, DistributedType.NO, 0)


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Let this process be one of two; takes what the other one has."""

    class State:
        num_processes = 2

    def other_has(value: object) -> None:
        monkeypatch.setattr(agreement, "gather_object", lambda mine: [*mine, value])

    monkeypatch.setattr(agreement, "PartialState", State)
    return other_has


def test_processes_that_see_other_checkpoints_stop(
    two_processes: Callable[[object], None],
) -> None:
    two_processes("checkpoint-20")
    require_same("resumes from", "checkpoint-20")
    two_processes(None)
    require_same("resumes from", None)
    with pytest.raises(LaggingDiskError, match=r"0 resumes from checkpoint-20, process 1 .* None"):
        require_same("resumes from", "checkpoint-20")
