"""Running a benchmark as a user does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def run_benchmark(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of benchmarks/ by path, on one thread."""
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=550)


def last_json(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The object in a command's last line."""
    assert done.stdout, done.stderr[-3000:]
    parsed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return parsed
