"""The folder of a run: one training at a time, how the run was made and how it went."""

import errno
import fcntl
import importlib.metadata
import json
import logging
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from common.errors import UserError
from common.files import AppendLog, atomic_write, file_sha256
from models.files.checkpoint import METRICS_FILE, package_versions
from training.saving.checkpoints import checkpoint_step, checkpoints

HISTORY_FILE = "history.jsonl"
REMEDY = "Delete the line, or the file: a resumed run writes it anew from its checkpoint"
RUN_FILE = "run.json"
NOTHING_FILE = "nothing_to_learn.txt"
ROOT = Path(__file__).resolve().parents[2]
# Beside those that decide what weights compute.
FURTHER_PACKAGES = ("accelerate", "datasets", "deepspeed", "numpy")
SLURM = ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT")
logger = logging.getLogger(__name__)
LOCK_FILE = "run.lock"
# What a kill in the middle of writing leaves.
LEFTOVERS = (".checkpoint-*", ".component.*", ".best.*", ".history.jsonl.*", ".run.json.*")


class RunFolderError(UserError, RuntimeError):
    """A run's folder is in use, or holds another training that would be lost."""


def history_log(output_dir: str | Path) -> AppendLog:
    """The file of the figures that a run logs, one JSON object with `step` a line."""
    return AppendLog(Path(output_dir) / HISTORY_FILE, REMEDY)


def read_history(run: Path) -> list[dict[str, Any]]:
    """The logged figures of a run folder, in the order of their steps.

    Raises:
        RecordError: a line that is no JSON.
        FileNotFoundError: the folder has no history.
    """
    log = history_log(run)
    if not log.path.is_file():
        raise FileNotFoundError(f"{log.path}: no such file. Give the output_dir of a training run")
    return [entry for _, entry in log.read()]


def record_start(
    output_dir: Path, settings: Mapping[str, Any], processes: Mapping[str, Any], resume: Path | None
) -> None:
    """Add this start to OUTPUT_DIR/run.json.

    Args:
        settings: the recipe with its overrides, as JSON holds it.
        processes: how many there are, of what kind, and on which device.
        resume: the checkpoint gone on from; None begins the file anew.
    """
    path = output_dir / RUN_FILE
    earlier = read_starts(output_dir) if resume and path.is_file() else []
    start = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": sys.argv,
        "resumed_from": resume.name if resume else None,
        "settings": dict(settings),
        "data": {name: describe_data(settings["data"][name]) for name in ("train", "dev")},
        "versions": versions(),
        "git": git_state(ROOT),
        "processes": dict(processes),
        "hardware": hardware(),
        "slurm": {name: os.environ[name] for name in SLURM if name in os.environ},
    }
    with atomic_write(path) as handle:
        json.dump({"starts": [*earlier, start]}, handle, indent=2, sort_keys=True)
        handle.write("\n")


def read_starts(run: Path) -> list[dict[str, Any]]:
    """Every start of a run, the first one first.

    Raises:
        FileNotFoundError: the folder has no run.json.
        ValueError: it cannot be read.
    """
    path = run / RUN_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file. Give the output_dir of a training run")
    try:
        return list(json.loads(path.read_text(encoding="utf-8"))["starts"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: is no record of a run ({error})") from error


def note_nothing_to_learn(output_dir: Path, reason: str) -> None:
    """Leave word for the command that started a training: launchers drop its exit status."""
    with atomic_write(output_dir / NOTHING_FILE) as handle:
        handle.write(f"{reason}\n")


def read_nothing_to_learn(output_dir: Path) -> str | None:
    """Return why a training ended for want of anything to learn from; None where it did not."""
    path = output_dir / NOTHING_FILE
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None


def describe_data(path: str) -> dict[str, Any] | None:
    """Bytes and sha256 of a data file; None where there is none."""
    if not path:
        return None
    return {"path": path, "bytes": Path(path).stat().st_size, "sha256": file_sha256(Path(path))}


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that a training hangs on."""
    further: dict[str, str] = {}
    for name in FURTHER_PACKAGES:
        try:
            further[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"python": platform.python_version(), **package_versions(), **further}


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit of a working tree and the files changed since; None outside of one."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no").splitlines()
        return {"commit": git("rev-parse", "HEAD"), "changed": [line[3:] for line in changed]}
    except (OSError, subprocess.SubprocessError):
        return None


def hardware() -> dict[str, Any]:
    """What the main process runs on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "machine": platform.machine(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": memory,
        "gpus": gpus,
        "cuda": torch.version.cuda,
    }


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
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        _write(descriptor, {"host": socket.gethostname(), "process": os.getpid(), "since": since})
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
    # Said of the data of an earlier training.
    (output_dir / NOTHING_FILE).unlink(missing_ok=True)
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
