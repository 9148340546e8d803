"""Run the tests again and again, their files in random order, and tell each run's outcome.

    benchmarks/repeated_tests.py --runs 20 --out runs/repeated_tests

What fails by chance fails seldom, so one green run says little. Every run is kept in --out as it
ends, and the same command goes on after the last whole one. `load` is how many processes wanted a
processor when a run began, so that runs beside other work can be told from those alone. Status 1
says that a run was not green. The last line of the output is one JSON object.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tqdm import tqdm

from benchmarks.harness.processes import benchmark_parser
from benchmarks.harness.run_folder import claim
from common import provenance
from common.commands import one_line_errors
from common.errors import UserError
from common.files import atomic_write
from common.tables import emit_json, print_table

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("run", "commit", "load", "passed", "skipped", "seconds", "red")


class RepetitionError(UserError, ValueError):
    """Runs that cannot be made or continued; the message says why and what to do."""


def shuffled_files(folder: Path, seed: int, run: int) -> list[str]:
    """Return the test files below a folder in the random order of a run, relative to the project.

    Raises RepetitionError where there are none.
    """
    files = sorted(os.path.relpath(path, ROOT) for path in folder.resolve().rglob("test_*.py"))
    if not files:
        raise RepetitionError(f"{folder}: holds no test_*.py file; name a folder of tests")
    random.Random(f"{seed} {run}").shuffle(files)
    return files


def outcome_of(report: Path) -> dict[str, Any]:
    """Return the numbers of passed and skipped tests of a JUnit report, and the red ones' names."""
    passed, skipped, red = 0, 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            red.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in outcomes:
            skipped += 1
        else:
            passed += 1
    return {"passed": passed, "skipped": skipped, "red": sorted(red)}


def run_tests(files: Sequence[str], options: argparse.Namespace, log: Path) -> dict[str, Any]:
    """Run pytest on the files in their order; its output goes to `log`.

    A run without a report, as one that was killed, raises RepetitionError.
    """
    load, started = os.getloadavg()[0], time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary, log.open("w", encoding="utf-8") as output:
        report = Path(temporary) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", "-n", str(options.processes), "--dist", "worksteal"),
            *("-m", options.markers, f"--junitxml={report}", *files),
        ]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        if not report.is_file():
            raise RepetitionError(f"pytest ended with status {done.returncode}: see {log}")
        found = outcome_of(report)
    if done.returncode and not found["red"]:
        found["red"] = [f"pytest ended with status {done.returncode}"]
    return {"load": load, "seconds": time.perf_counter() - started, **found}


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return what decides which tests a run has, in which order and company."""
    return {
        "markers": options.markers,
        "processes": options.processes,
        "seed": options.seed,
        "tests": os.path.relpath(options.tests.resolve(), ROOT),
    }


def repeat(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the tests until --out holds --runs outcomes, and return all of them.

    Raises RunFolderError where --out holds runs of other settings.
    """
    claim(options.out, settings_of(options))
    known = {path: json.loads(path.read_text("utf-8")) for path in options.out.glob("run_*.json")}
    outcomes = []
    for run in tqdm(range(1, options.runs + 1), unit="run", desc="tests"):
        path = options.out / f"run_{run}.json"
        if path not in known:
            files = shuffled_files(options.tests, options.seed, run)
            # Every run reads the tree anew, which may have changed since.
            provenance.git_state.cache_clear()
            told = {"run": run, **provenance.git_state()}
            told |= run_tests(files, options, options.out / f"run_{run}.log")
            with atomic_write(path) as file:
                file.write(json.dumps(told) + "\n")
            known[path] = told
        outcomes.append(known[path])
    return outcomes


def summary(outcomes: Sequence[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Return what all runs came to, and each of them."""
    return {
        "benchmark": "repeated_tests",
        "settings": settings_of(options),
        "runs": len(outcomes),
        "red_runs": sum(bool(outcome["red"]) for outcome in outcomes),
        "median_seconds": statistics.median(outcome["seconds"] for outcome in outcomes),
        "outcomes": outcomes,
    }


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder of the runs; it is gone on with")
    add("--runs", type=int, default=20, help="how often (default: %(default)s)")
    add("--tests", type=Path, default=ROOT / "tests", help="folder of tests (default: all)")
    add("--markers", default="not exhaustive", help="as pytest's -m (default: '%(default)s')")
    add("--processes", type=int, default=2, help="side by side (default: %(default)s)")
    add("--seed", type=int, default=0, help="of the orders of files (default: %(default)s)")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if min(options.runs, options.processes) < 1:
        parser.error("--runs and --processes must be at least 1")
    outcomes = repeat(options)
    rows = [
        [*(outcome[name] for name in COLUMNS[:-1]), ", ".join(outcome["red"]) or "–"]
        for outcome in outcomes
    ]
    print_table("Repeated tests", COLUMNS, rows)
    report = summary(outcomes, options)
    emit_json(report)
    sys.exit(1 if report["red_runs"] else 0)


if __name__ == "__main__":
    main()
