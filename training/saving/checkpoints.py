"""Checkpoint folders of a run: found, checked whole, dropped, and the room that they need."""

import errno
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from common.errors import UserError
from models.files.checkpoint import (
    CheckpointWriteError,
    TruncatedCheckpointError,
    verify_component,
)

logger = logging.getLogger(__name__)
# The weights that train and Adam's two moments of them.
COPIES_A_CHECKPOINT = 3
TRAINING_STATE = "training_state"
TRAINER_STATE = "trainer_state.json"
STATE_MANIFEST = "manifest.json"
LAST, AUTO = "last", "auto"


class ResumeError(UserError, ValueError):
    """A checkpoint that this training cannot go on from; the message says why and what helps."""


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
    verify_component(folder / TRAINING_STATE)


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


def drop(newest: Path, keep: int | None, best: int | None) -> None:
    """Drop the oldest checkpoints but the best, and those of a course that was gone back on."""
    found = checkpoints(newest.parent)
    later = [folder for folder in found if checkpoint_step(folder) > checkpoint_step(newest)]
    course = [folder for folder in found if folder not in later]
    old = [f for f in course[: -keep if keep else 0] if checkpoint_step(f) != best]
    for folder in [*later, *old]:
        shutil.rmtree(folder, ignore_errors=True)
