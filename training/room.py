"""Whether the disk will hold the next checkpoint."""

import logging
import shutil
from pathlib import Path

from models.checkpoint import CheckpointWriteError

logger = logging.getLogger(__name__)
# The weights that train and Adam's two moments of them.
COPIES_A_CHECKPOINT = 3


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
