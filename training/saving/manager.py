"""The manager of a training's checkpoints: it writes them, and gives back what they hold."""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object
from torch import nn
from transformers import TrainerState

from common.files import atomic_directory, atomic_write
from models.files.checkpoint import MANIFEST_FILE, METRICS_FILE, describe_files, write_json
from models.parts.adapters import trainable_bytes
from training.saving.checkpoints import (
    STATE_MANIFEST,
    TRAINER_STATE,
    TRAINING_STATE,
    ResumeError,
    best_step,
    check_room,
    drop,
    warn_of_room,
    writing,
)
from training.saving.sharding import (
    load_optimizer_state,
    whole_optimizer_state,
    whole_parameters,
)
from training.saving.state import (
    CheckpointWriter,
    ComponentCopy,
    TrainingStateCopy,
    read_optimizer,
    rng_state,
    set_rng_state,
    write_optimizer,
)

logger = logging.getLogger(__name__)
PROGRESS = "progress.json"


@dataclass(frozen=True)
class Standing:
    """Where a training stands after a step, beside its weights and its optimizer.

    Attributes:
        scheduler: the state of the learning rate's schedule.
        elapsed_seconds: trained so far, over all starts.
        order: what decides which samples each step holds; a resumed training needs the same.
        loss: this process's losses that are not logged yet.
    """

    scheduler: dict[str, Any]
    elapsed_seconds: float
    order: dict[str, Any]
    loss: dict[str, Any]


class CheckpointManager:
    """Writes a training's checkpoints and its component, and gives back what they hold.

    Every process has one, and all call its methods together; `writer` does the writing. Make it
    before parameters are split.

    Args:
        output_dir: the run's folder.
        component: what is trained; has `save_pretrained(folder)`.
        process, processes: the number of this process, and how many there are.
        writes: this process is the one that writes.
        in_background: write beside the steps.
        keep: checkpoints kept beside the best; None: all.
    """

    def __init__(
        self,
        output_dir: Path,
        component: nn.Module,
        process: int,
        processes: int,
        writes: bool,
        in_background: bool,
        keep: int | None,
    ) -> None:
        self.output_dir = output_dir
        self.process, self.processes = process, processes
        self.writes, self.keep = writes, keep
        self.writer = CheckpointWriter(in_background)
        self._copy = ComponentCopy(component) if writes else None

    def save(
        self,
        component: nn.Module,
        optimizer: Any,
        names: Sequence[str],
        trainer_state: TrainerState,
        standing: Callable[[], Standing],
    ) -> None:
        """Copy what `checkpoint-N` is to hold and have it written; then the oldest are dropped.

        Args:
            names: trained parameters in the order of the optimizer's groups.
            standing: called once the checkpoint before is written.

        Raises:
            CheckpointWriteError: the disk is full or not writable, for this checkpoint or the one
                before it; earlier checkpoints are whole.
        """
        # One copy in memory at a time, so the one before is waited for.
        self.writer.wait()
        now = standing()
        mine = {"random": rng_state(), "loss": now.loss}
        processes = gather_object([(self.process, mine)])
        optimizer_state = whole_optimizer_state(optimizer, names)
        folder = self.output_dir / f"checkpoint-{trainer_state.global_step}"
        with whole_parameters(component):
            if self._copy is None:
                return
            size = trainable_bytes(component)
            check_room(self.output_dir, size, "Earlier checkpoints are whole.")
            self._copy.take(component)
        groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
        progress = {
            "scheduler": now.scheduler,
            "elapsed_seconds": now.elapsed_seconds,
            "order": now.order,
        }
        # Logged figures are only ever added to.
        logged = replace(trainer_state, log_history=list(trainer_state.log_history))
        state = TrainingStateCopy(optimizer_state, groups, processes, _plain(progress), logged)
        keep = self.keep, best_step(logged.log_history)
        self.writer.submit(partial(_write, folder, self._copy, state, size, *keep))

    def install(self, component: Any, metrics: dict[str, Any]) -> None:
        """Write the final component and metrics.json into the output folder itself.

        The folder also holds checkpoints and logs, so the component's files are moved into it one
        by one, each whole.

        Raises:
            CheckpointWriteError: the disk is full or not writable.
        """
        with whole_parameters(component):
            if not self.writes:
                return
            with writing(self.output_dir):
                temporary = Path(tempfile.mkdtemp(dir=self.output_dir, prefix=".component."))
                try:
                    component.save_pretrained(temporary / "component")
                    text = _metrics_text(metrics)
                    (temporary / "component" / METRICS_FILE).write_text(text, encoding="utf-8")
                    # After all that it names the manifest, and at the end the figures, which say
                    # that the component is there.
                    last = (MANIFEST_FILE, METRICS_FILE)
                    files = [p for p in (temporary / "component").iterdir() if p.name not in last]
                    for path in [*files, *(temporary / "component" / name for name in last)]:
                        target = self.output_dir / path.name
                        if target.is_dir():
                            shutil.rmtree(target)
                        os.replace(path, target)
                finally:
                    shutil.rmtree(temporary, ignore_errors=True)

    def record(self, metrics: dict[str, Any]) -> None:
        """Write metrics.json anew beside the component that is installed.

        Raises:
            CheckpointWriteError: the disk is full or not writable.
        """
        if self.writes:
            path = self.output_dir / METRICS_FILE
            with writing(self.output_dir), atomic_write(path) as handle:
                handle.write(_metrics_text(metrics))

    def restore(
        self, training_state: Path, optimizer: Any, names: Sequence[str], order: dict[str, Any]
    ) -> Standing:
        """Give the optimizer a checkpoint's state and return where the training stood.

        order: this training's own.

        Raises:
            ResumeError: the checkpoint is of other parameters or of another order of samples.
        """
        load_optimizer_state(optimizer, names, *read_optimizer(training_state, names))
        progress = json.loads((training_state / PROGRESS).read_text())
        _check_order(training_state, progress["order"], order)
        loss = _carried_loss(training_state, self.process, self.processes)
        return Standing(progress["scheduler"], progress["elapsed_seconds"], progress["order"], loss)

    def restore_random(self, training_state: Path) -> None:
        """Give this process's random generators the state that a checkpoint holds, if it does."""
        state = _process_state(training_state, self.process)
        if state is not None:
            set_rng_state(state["random"])
        else:
            logger.warning(
                "%s has no random state of process %d: its dropout goes on from another one",
                training_state,
                self.process,
            )


def _metrics_text(metrics: dict[str, Any]) -> str:
    return json.dumps(metrics, indent=2, sort_keys=True) + "\n"


def _write(
    folder: Path,
    component: ComponentCopy,
    state: TrainingStateCopy,
    size: int,
    keep: int | None,
    best: int | None,
) -> None:
    """Write a checkpoint from copies, whole or not at all; `size`: of the weights, in bytes."""
    with component.released(), writing(folder), atomic_directory(folder) as temporary:
        own = temporary / "component"
        component.save_pretrained(own)
        for path in own.iterdir():
            os.replace(path, temporary / path.name)
        own.rmdir()
        _write_training_state(state, temporary / TRAINING_STATE)
    drop(folder, keep, best)
    warn_of_room(folder.parent, size)


def _write_training_state(state: TrainingStateCopy, folder: Path) -> None:
    folder.mkdir()
    write_optimizer(state.optimizer, state.groups, folder)
    for process, own in state.processes:
        (folder / f"process_{process}.json").write_text(json.dumps(own))
    (folder / PROGRESS).write_text(json.dumps(state.progress))
    state.trainer.save_to_json(str(folder / TRAINER_STATE))
    component = describe_files(folder.parent)
    manifest = {
        "checkpoint_bytes": sum(entry["bytes"] for entry in component.values()),
        "files": describe_files(folder),
    }
    write_json(folder / STATE_MANIFEST, manifest)


def _check_order(training_state: Path, stored: dict[str, Any], ours: dict[str, Any]) -> None:
    differing = [
        f"{key} {value} there and {ours[key]} here"
        for key, value in stored.items()
        if ours.get(key) != value
    ]
    if differing:
        raise ResumeError(
            f"train.resume: {training_state.parent} was trained on other steps: "
            f"{'; '.join(differing)}."
            " Set them as they were (a step holds train.batch_size x"
            " train.gradient_accumulation_steps x processes samples), or begin a new training"
            " from its weights with model.start_from"
        )


def _process_state(training_state: Path, process: int) -> dict[str, Any] | None:
    """Random state and pending loss of one process; None where that process did not run."""
    path = training_state / f"process_{process}.json"
    return dict(json.loads(path.read_text())) if path.is_file() else None


def _carried_loss(training_state: Path, process: int, processes: int) -> dict[str, Any]:
    """The pending loss of this process; the mean of all where another number of them ran."""
    files = sorted(training_state.glob("process_*.json"))
    losses = [json.loads(path.read_text())["loss"] for path in files]
    own = _process_state(training_state, process)
    if own is not None and len(losses) == processes:
        return dict(own["loss"])
    return {**losses[0], "loss": sum(entry["loss"] for entry in losses) / len(losses)}


def _plain(value: Any) -> Any:
    """Keep what JSON can hold; a scheduler's lambdas are code, not state."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) else None
