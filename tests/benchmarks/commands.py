"""Running a benchmark as a user does."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests import processes

ROOT = Path(__file__).resolve().parents[2]


def run_benchmark(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of benchmarks/ by path."""
    return processes.run(ROOT / "benchmarks" / script, *arguments, timeout=550)


def last_json(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The object in a command's last line."""
    assert done.stdout, done.stderr[-3000:]
    parsed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return parsed
