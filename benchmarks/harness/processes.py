"""Parts of a comparison one at a time, each in a process of its own; failures are results."""

import argparse
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psutil
from tqdm import tqdm

from common.commands import command_parser

ROOT = Path(__file__).resolve().parents[2]
GIB = 2**30
RunT = TypeVar("RunT")
# Linux alone has it.
_PRCTL: Any = getattr(ctypes.CDLL(None), "prctl", None)
_PR_SET_PDEATHSIG = 1
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
        worker: str,
        use_gpu: bool = False,
    ) -> None:
        """worker: module that does one part, run as `python -m WORKER FOLDER PART`.

        use_gpu: let parts see a GPU; otherwise the comparison is one of processors, everywhere.
        """
        self.folder = folder
        self.worker = worker
        self.deadline = time.monotonic() + limit_seconds
        self.environment = environment(threads, use_gpu)

    @property
    def seconds_left(self) -> float:
        """Return the time that is left for all further parts."""
        return self.deadline - time.monotonic()

    def run(self, part: str, limit_seconds: float = float("inf")) -> PartResult:
        """Run one part to its end, its failure, the end of the time or of its own limit."""
        return self.run_command(
            [sys.executable, "-m", self.worker, str(self.folder), part], limit_seconds
        )

    def run_command(
        self, command: Sequence[str], limit_seconds: float = float("inf")
    ) -> PartResult:
        """Run a command whose last line is one JSON object, as `run`."""
        left = self.seconds_left
        if left <= 0:
            return PartResult("not started: the time was used up")
        return run_process(command, self.environment, min(left, limit_seconds))


def environment(threads: int, use_gpu: bool = False) -> dict[str, str]:
    """Return a part's environment: the project found, so many threads, no GPU but where asked."""
    hidden = {} if use_gpu else {"CUDA_VISIBLE_DEVICES": ""}
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        **hidden,
        "TOKENIZERS_PARALLELISM": "false",
    }


def run_process(
    command: Sequence[str], environment: Mapping[str, str], limit_seconds: float | None = None
) -> PartResult:
    """Run a process to its end; its figures are the JSON object in its last line.

    One that is out of time is ended with all of its children; one whose parent is killed ends too.
    """
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(_end_with_parent, os.getpid()) if _PRCTL else None,
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            return PartResult("timed out")
        finally:
            _kill(process)
    if process.returncode:
        return PartResult(_failure(process.returncode, errors))
    return PartResult("ok", json.loads(output.splitlines()[-1]))


def _end_with_parent(parent: int) -> None:
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent that ended before the call sends no signal.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _kill(process: "subprocess.Popen[str]") -> None:
    """End a process that still runs, and its children, which may be in sessions of their own."""
    if process.poll() is not None:
        return
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()


def in_turn(
    names: Sequence[str], rounds: int, run: Callable[[str], RunT], what: str = "measuring"
) -> dict[str, list[RunT]]:
    """Run everyone in turn, round after round; returns what each gave, by name."""
    results: dict[str, list[RunT]] = {name: [] for name in names}
    for name in (progress := tqdm([*names] * rounds, desc=what, unit=" runs")):
        progress.set_postfix_str(name)
        results[name].append(run(name))
    return results


def figure_ratio(
    figures: Mapping[str, Mapping[str, Any]], over: str, under: str, key: str
) -> float | None:
    """Return one's figure over another's; None where one has none."""
    top, bottom = (figures.get(name, {}).get(key) for name in (over, under))
    return top / bottom if top and bottom else None


def peak_bytes() -> int:
    """Return the most memory that this process has held.

    From the kernel's own account of it where there is one: `ru_maxrss` counts what the process that
    started this one held, too.
    """
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def resident_bytes(process: psutil.Process) -> int:
    """Return what a process and its children hold now, shared pages counted for each of them."""
    held = 0
    for each in (process, *process.children(recursive=True)):
        # A child may end between the two looks.
        with suppress(psutil.NoSuchProcess):
            held += int(each.memory_info().rss)
    return held


def benchmark_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option --json, which changes nothing here."""
    parser = command_parser(description)
    parser.add_argument(
        "--json", action="store_true", help="accepted as everywhere; the JSON is always printed"
    )
    return parser


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
