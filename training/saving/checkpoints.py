"""Checkpoint folders of a running training: the component and its training_state/."""

import errno
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object
from safetensors import SafetensorError

from common.files import atomic_directory
from models.files.checkpoint import (
    CheckpointWriteError,
    TruncatedCheckpointError,
    describe_files,
    verify_component,
    write_json,
)
from models.parts.adapters import trainable_bytes
from training.recipe.errors import ResumeError
from training.saving.sharding import whole_optimizer_state, whole_parameters
from training.saving.state import (
    ComponentCopy,
    StateByName,
    TrainingStateCopy,
    rng_state,
    write_optimizer,
)

logger = logging.getLogger(__name__)
# The weights that train and Adam's two moments of them.
COPIES_A_CHECKPOINT = 3
if TYPE_CHECKING:
    from training.loop.trainer import ComponentTrainer

TRAINING_STATE = "training_state"
TRAINER_STATE = "trainer_state.json"
PROGRESS = "progress.json"
STATE_MANIFEST = "manifest.json"
LAST, AUTO = "last", "auto"


def check_room(folder: Path, trained_bytes: int, keeps: str) -> None:
    """Refuse to go on to a checkpoint that the disk will not hold.

    Args:
        trained_bytes: of the parameters that train; a checkpoint holds them and their optimizer
            state.
        keeps: what is safe meanwhile, for the message.

    Raises:
        CheckpointWriteError: names the disk, what is free and what is needed.
    """
    needed = COPIES_A_CHECKPOINT * trained_bytes
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise CheckpointWriteError(
            f"{folder}: a checkpoint takes about {_size(needed)} and the disk has {_size(free)} "
            f"left. {keeps} Free some space, or choose another output_dir"
        )


def warn_of_room(folder: Path, trained_bytes: int) -> None:
    """Say early that the checkpoint after this one will not fit."""
    try:
        check_room(folder, trained_bytes, "This one is whole, the next will not fit.")
    except CheckpointWriteError as error:
        logger.warning("%s", error)


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"


def write_checkpoint(trainer: "ComponentTrainer") -> None:
    """Copy what `checkpoint-N` is to hold and have the trainer's writer write it.

    Called by all processes; the main one writes. When it is written the oldest ones are dropped.

    Raises:
        CheckpointWriteError: the disk is full or not writable, for this checkpoint or the one
            before it; earlier checkpoints are whole.
    """
    # One copy in memory at a time, so the one before is waited for.
    trainer.writer.wait()
    mine = {"random": rng_state(), "loss": trainer.loss_to_carry()}
    processes = gather_object([(trainer.args.process_index, mine)])
    optimizer_state = whole_optimizer_state(trainer.optimizer, trainer.parameter_names())
    folder = Path(str(trainer.args.output_dir)) / f"checkpoint-{trainer.state.global_step}"
    with whole_parameters(trainer.component):
        if trainer.component_copy is None:
            return
        size = trainable_bytes(trainer.component)
        check_room(folder.parent, size, "Earlier checkpoints are whole.")
        trainer.component_copy.take(trainer.component)
    state = _training_state(trainer, optimizer_state, processes)
    keep = trainer.args.save_total_limit, best_step(trainer.state.log_history)
    trainer.writer.submit(partial(_write, folder, trainer.component_copy, state, size, *keep))


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
        component.save_pretrained(temporary / "component")
        _move_up(temporary / "component")
        _write_training_state(state, temporary / TRAINING_STATE)
    drop(folder, keep, best)
    warn_of_room(folder.parent, size)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a full or read-only disk into an error that names the folder."""
    try:
        yield
    except SafetensorError as error:
        raise CheckpointWriteError(f"{folder}: cannot be written: {error}") from error
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
        raise CheckpointWriteError(
            f"{folder}: cannot be written: {reason}. Earlier checkpoints are whole; free some "
            "space and start again with train.resume=last"
        ) from error


def install_component(trainer: "ComponentTrainer", metrics: dict[str, Any]) -> None:
    """Write the final component and metrics.json into the output folder itself.

    Called by all processes; the main one writes. The folder also holds checkpoints and logs, so
    the component's files are moved into it one by one, each whole.

    Raises:
        CheckpointWriteError: the disk is full or not writable.
    """
    folder = Path(str(trainer.args.output_dir))
    with whole_parameters(trainer.component):
        if not trainer.args.should_save:
            return
        with writing(folder):
            temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".component."))
            try:
                trainer.component.save_pretrained(temporary / "component")
                metrics_text = json.dumps(metrics, indent=2, sort_keys=True) + "\n"
                (temporary / "component" / "metrics.json").write_text(metrics_text)
                for path in sorted((temporary / "component").iterdir(), key=_manifest_last):
                    _replace(path, folder / path.name)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)


def resume_folder(resume: str, output_dir: str) -> Path | None:
    """The checkpoint a recipe resumes from, checked whole.

    Args:
        resume: empty for none; a folder; `last`, the newest whole one in output_dir; `auto`, the
            same or, where there is no checkpoint yet, none.

    Raises:
        ResumeError: there is no such checkpoint, it has no training state, or it is damaged.
    """
    if not resume:
        return None
    if resume not in (LAST, AUTO):
        folder = Path(resume)
        _require_state(folder, resume)
        verify_checkpoint(folder)
        return folder
    found = checkpoints(Path(output_dir))
    for folder in reversed(found):
        try:
            _require_state(folder, resume)
            verify_checkpoint(folder)
            return folder
        except (TruncatedCheckpointError, ResumeError) as error:
            logger.warning("damaged checkpoint passed over: %s", error)
    if found or resume == LAST:
        _require_state(Path(output_dir), resume)
    return None


def checkpoints(output_dir: Path) -> list[Path]:
    """The checkpoint folders of a run, by step."""
    found = [p for p in output_dir.glob("checkpoint-*") if p.name.rpartition("-")[2].isdigit()]
    return sorted(found, key=checkpoint_step)


def checkpoint_step(folder: Path) -> int:
    """The optimizer step after which a checkpoint was written."""
    return int(folder.name.rpartition("-")[2])


def verify_checkpoint(folder: Path) -> None:
    """Compare every file of component and training state with its sha256.

    Raises:
        TruncatedCheckpointError: naming the first file that differs.
    """
    verify_component(folder)
    # Checkpoints of earlier versions have no manifest of their training state.
    if (folder / TRAINING_STATE / STATE_MANIFEST).is_file():
        verify_component(folder / TRAINING_STATE)


def read_progress(training_state: Path) -> dict[str, Any]:
    """What progress.json holds: scheduler, seconds, and the order of samples it belongs to."""
    progress: dict[str, Any] = json.loads((training_state / PROGRESS).read_text())
    return progress


def process_state(training_state: Path, process: int) -> dict[str, Any] | None:
    """Random state and pending loss of one process; None where that process did not run."""
    path = training_state / f"process_{process}.json"
    if path.is_file():
        state: dict[str, Any] = json.loads(path.read_text())
        return state
    # Earlier versions wrote the random state alone.
    path = training_state / f"rng_{process}.json"
    return {"random": json.loads(path.read_text()), "loss": None} if path.is_file() else None


def carried_loss(training_state: Path, process: int, processes: int) -> dict[str, Any] | None:
    """The pending loss of this process; the mean of all where another number of them ran."""
    files = sorted(training_state.glob("process_*.json"))
    losses = [json.loads(path.read_text())["loss"] for path in files]
    if not losses:
        return None
    own = process_state(training_state, process)
    if own is not None and len(losses) == processes:
        return dict(own["loss"])
    return {**losses[0], "loss": sum(entry["loss"] for entry in losses) / len(losses)}


def best_step(log_history: list[dict[str, float]]) -> int | None:
    """The step with the lowest validation loss so far; None without a validation."""
    measured = [entry for entry in log_history if "eval_loss" in entry]
    best = min(measured, key=lambda entry: entry["eval_loss"], default=None)
    return int(best["step"]) if best else None


def _require_state(folder: Path, resume: str) -> None:
    if not (folder / TRAINING_STATE / TRAINER_STATE).is_file():
        raise ResumeError(
            f"train.resume={resume}: {folder} holds no checkpoint with {TRAINING_STATE}/. "
            "Give a checkpoint-N folder, or leave train.resume empty to start anew"
        )


def _training_state(
    trainer: "ComponentTrainer", optimizer: StateByName, processes: list[tuple[int, Any]]
) -> TrainingStateCopy:
    assert trainer.optimizer is not None and trainer.lr_scheduler is not None
    groups = [{k: v for k, v in g.items() if k != "params"} for g in trainer.optimizer.param_groups]
    progress = {
        "scheduler": trainer.lr_scheduler.state_dict(),
        "elapsed_seconds": trainer.clock.elapsed_seconds,
        "order": trainer.order(),
    }
    # Logged figures are only ever added to.
    state = replace(trainer.state, log_history=list(trainer.state.log_history))
    return TrainingStateCopy(optimizer, groups, processes, _plain(progress), state)


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


def _plain(value: Any) -> Any:
    """Keep what JSON can hold; a scheduler's lambdas are code, not state."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) else None


def _move_up(folder: Path) -> None:
    for path in folder.iterdir():
        os.replace(path, folder.parent / path.name)
    folder.rmdir()


def _replace(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    os.replace(source, target)


def _manifest_last(path: Path) -> tuple[bool, str]:
    return path.name == "manifest.json", path.name


def drop(newest: Path, keep: int | None, best: int | None) -> None:
    """Drop the oldest checkpoints but the best, and those of a course that was gone back on."""
    found = checkpoints(newest.parent)
    later = [folder for folder in found if checkpoint_step(folder) > checkpoint_step(newest)]
    course = [folder for folder in found if folder not in later]
    old = [f for f in course[: -keep if keep else 0] if checkpoint_step(f) != best]
    for folder in [*later, *old]:
        shutil.rmtree(folder, ignore_errors=True)
