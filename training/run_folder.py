"""A run's folder belongs to one training at a time."""

import errno
import fcntl
import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.checkpoint import METRICS_FILE
from training.checkpoints import checkpoint_step, checkpoints
from training.errors import RunFolderError

logger = logging.getLogger(__name__)
LOCK_FILE = "run.lock"
# What a kill in the middle of writing leaves.
LEFTOVERS = (".checkpoint-*", ".component.*", ".best.*", ".history.jsonl.*", ".run.json.*")


@contextmanager
def claimed(output_dir: Path, resume: str) -> Iterator[None]:
    """Hold a run's folder for this process; another process that asks for it gets an error.

    The system drops the lock of a process that ends in any way, so a stale one blocks nobody.

    Args:
        resume: the recipe's `train.resume`; empty: a new training, which has no business with an
            unfinished one in the same folder.

    Raises:
        RunFolderError: another training is at work there, or left checkpoints there.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(output_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(descriptor, output_dir)
        if left := _owner(descriptor):
            logger.warning("%s: %s did not end by itself; going on after it", output_dir, left)
        _clean(output_dir)
        if not resume:
            _make_way(output_dir)
        _write(descriptor, {"host": socket.gethostname(), "process": os.getpid(), "since": _now()})
        yield
        _write(descriptor, {})
    finally:
        os.close(descriptor)


def _lock(descriptor: int, output_dir: Path) -> None:
    try:
        # A record lock: data workers do not inherit it, so it ends with the process itself.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            owner = _owner(descriptor) or "another process"
            raise RunFolderError(
                f"{output_dir}: {owner} is training there now. Wait for it or stop it, or choose "
                "another output_dir"
            ) from None
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        logger.warning("%s: its file system has no locks; nothing guards it", output_dir)


def _owner(descriptor: int) -> str:
    """Who holds or held the lock, in words; empty where nobody does."""
    text = os.pread(descriptor, 4096, 0).decode("utf-8", "replace").strip()
    try:
        owner = json.loads(text) if text else {}
    except ValueError:
        return ""
    if not owner:
        return ""
    return "process {process} on {host}, started {since},".format_map(owner)


def _write(descriptor: int, owner: dict[str, Any]) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, (json.dumps(owner) if owner else "").encode(), 0)


def _clean(output_dir: Path) -> None:
    for pattern in LEFTOVERS:
        for path in output_dir.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _make_way(output_dir: Path) -> None:
    """Drop a finished training's checkpoints; its component stays until the new one is whole."""
    found = checkpoints(output_dir)
    if not found:
        return
    finished = output_dir / METRICS_FILE
    newest = max(folder.stat().st_mtime for folder in found)
    if not finished.is_file() or finished.stat().st_mtime < newest:
        raise RunFolderError(
            f"{output_dir}: holds checkpoint-{checkpoint_step(found[-1])} of a training that has "
            "not finished. Go on with train.resume=last, or choose another output_dir, or delete "
            "the folder"
        )
    logger.warning("%s: checkpoints of an earlier, finished training are dropped", output_dir)
    for folder in found:
        shutil.rmtree(folder)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
