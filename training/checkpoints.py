"""Checkpoint folders of a running training: the component plus training_state/, atomically."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object
from safetensors import SafetensorError
from transformers.trainer_utils import get_last_checkpoint

from models.atomic import atomic_directory
from models.checkpoint import CheckpointWriteError
from training.training_state import rng_state, save_optimizer

if TYPE_CHECKING:
    from training.trainer import ComponentTrainer

TRAINING_STATE = "training_state"
TRAINER_STATE = "trainer_state.json"


def write_checkpoint(trainer: "ComponentTrainer") -> None:
    """Write `checkpoint-N` with component and training state, then drop the oldest ones.

    Raises:
        CheckpointWriteError: the disk is full or not writable; earlier checkpoints are whole.
    """
    random_states = gather_object([(trainer.args.process_index, rng_state())])
    if trainer.args.should_save:
        folder = Path(str(trainer.args.output_dir)) / f"checkpoint-{trainer.state.global_step}"
        with writing(folder), atomic_directory(folder) as temporary:
            trainer.save_model(str(temporary / "component"), _internal_call=True)
            _move_up(temporary / "component")
            _write_training_state(trainer, temporary / TRAINING_STATE, random_states)
        _drop_oldest(folder.parent, trainer.args.save_total_limit)


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

    The folder also holds checkpoints and logs, so the component's files are moved into it one
    by one, each whole.

    Raises:
        CheckpointWriteError: the disk is full or not writable.
    """
    folder = Path(str(trainer.args.output_dir))
    with writing(folder):
        temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".component."))
        try:
            trainer.save_model(str(temporary / "component"))
            metrics_text = json.dumps(metrics, indent=2, sort_keys=True) + "\n"
            (temporary / "component" / "metrics.json").write_text(metrics_text)
            for path in sorted((temporary / "component").iterdir(), key=_manifest_last):
                _replace(path, folder / path.name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def resume_folder(resume: str, output_dir: str) -> Path | None:
    """The checkpoint a recipe resumes from: none, the newest in output_dir, or a folder.

    Raises:
        FileNotFoundError: there is no such checkpoint, or it has no training state.
    """
    if not resume:
        return None
    newest = get_last_checkpoint(output_dir) if Path(output_dir).is_dir() else None
    folder = Path(newest or output_dir) if resume == "last" else Path(resume)
    if not (folder / TRAINING_STATE / TRAINER_STATE).is_file():
        raise FileNotFoundError(
            f"train.resume={resume}: {folder} holds no checkpoint with {TRAINING_STATE}/. "
            "Give a checkpoint-N folder, or leave train.resume empty to start anew"
        )
    return folder


def _write_training_state(
    trainer: "ComponentTrainer", folder: Path, random_states: list[tuple[int, Any]]
) -> None:
    folder.mkdir()
    assert trainer.optimizer is not None and trainer.lr_scheduler is not None
    save_optimizer(trainer.optimizer, folder)
    for process, state in random_states:
        (folder / f"rng_{process}.json").write_text(json.dumps(state))
    progress = {
        "scheduler": trainer.lr_scheduler.state_dict(),
        "elapsed_seconds": trainer.clock.elapsed_seconds,
    }
    (folder / "progress.json").write_text(json.dumps(_plain(progress)))
    trainer.state.save_to_json(str(folder / TRAINER_STATE))


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


def _drop_oldest(output_dir: Path, keep: int | None) -> None:
    found = sorted(output_dir.glob("checkpoint-*"), key=lambda p: int(p.name.rpartition("-")[2]))
    for folder in found[: -keep if keep else 0]:
        shutil.rmtree(folder, ignore_errors=True)
