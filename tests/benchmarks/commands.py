"""Running a benchmark as a user does."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks import results_page
from tests import processes

ROOT = Path(__file__).resolve().parents[2]


def run_benchmark(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of benchmarks/ by path, and the processes of its parts as forks of it."""
    return processes.run(ROOT / "benchmarks" / script, *arguments, timeout=550, forks=True)


def last_json(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The object in a command's last line."""
    assert done.stdout, done.stderr[-3000:]
    parsed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return parsed


def page_with(name: str, results: dict[str, Any], folder: Path) -> str:
    """The page of results where nothing but this is recorded; its run.json is another record's."""
    record = folder / "results" / name
    record.mkdir(parents=True)
    shutil.copyfile(results_page.RESULTS / "train_step" / "run.json", record / "run.json")
    (record / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return results_page.render(folder / "results", results_page.CHECKPOINTS)["docs/performance.md"]
