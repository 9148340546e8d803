"""`run.json`: with what a run was made, once for each start of it."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from models.atomic import atomic_write
from models.manifest import package_versions, sha256_of

RUN_FILE = "run.json"
ROOT = Path(__file__).resolve().parents[1]
# Beside those that decide what weights compute.
FURTHER_PACKAGES = ("accelerate", "datasets", "deepspeed", "numpy")
SLURM = ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT")


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


def describe_data(path: str) -> dict[str, Any] | None:
    """Bytes and sha256 of a data file; None where there is none."""
    if not path:
        return None
    return {"path": path, "bytes": Path(path).stat().st_size, "sha256": sha256_of(Path(path))}


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
