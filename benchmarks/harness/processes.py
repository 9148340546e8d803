"""Parts of a comparison one at a time, each in a process of its own; failures are results."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORKER = "benchmarks.workers.step"
MEMORY_MESSAGES = ("MemoryError", "not enough memory", "can't allocate memory", "out of memory")


@dataclass(frozen=True)
class PartResult:
    """`status` is "ok", "out of memory", "timed out", "not started: ..." or "failed: ..."."""

    status: str
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Return whether there are figures."""
        return self.status == "ok"


class PartRunner:
    """Runs parts until the time is used up.

    The process that calls this should itself be small: a child's peak memory never reads lower
    than its parent's at the start.
    """

    def __init__(
        self,
        folder: Path,
        threads: int,
        limit_seconds: float,
        worker: str = WORKER,
        use_gpu: bool = False,
    ) -> None:
        """worker: module that does one part, run as `python -m WORKER FOLDER PART`.

        use_gpu: let parts see a GPU; otherwise the comparison is one of processors, everywhere.
        """
        self.folder = folder
        self.worker = worker
        self.deadline = time.monotonic() + limit_seconds
        count = str(threads)
        hidden = {} if use_gpu else {"CUDA_VISIBLE_DEVICES": ""}
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": count,
            "MKL_NUM_THREADS": count,
            **hidden,
            "TOKENIZERS_PARALLELISM": "false",
        }

    def run(self, part: str) -> PartResult:
        """Run one part to its end, its failure or the end of the time."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return PartResult("not started: the time was used up")
        command = [sys.executable, "-m", self.worker, str(self.folder), part]
        try:
            done = subprocess.run(
                command, env=self.environment, capture_output=True, text=True, timeout=left
            )
        except subprocess.TimeoutExpired:
            return PartResult("timed out")
        if done.returncode:
            return PartResult(_failure(done.returncode, done.stderr))
        return PartResult("ok", json.loads(done.stdout.splitlines()[-1]))


def available_threads() -> int:
    """Return the cores that this process may use, where the system tells."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _failure(code: int, errors: str) -> str:
    lines = errors.strip().splitlines()
    last = lines[-1] if lines else f"exit code {code}"
    if code == -signal.SIGKILL or any(message in errors for message in MEMORY_MESSAGES):
        return "out of memory"
    return f"failed: {last}"
