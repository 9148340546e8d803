"""All that is measured of speed, in one command with a budget in minutes.

    benchmarks/all.py --minutes 60 --out runs/performance

Round after round every part runs once, so that what else the machine does meets all of them alike;
a figure is the median of its rounds, beside the least and the greatest. A run that was interrupted
goes on in its folder. --against sets the figures against a record: a difference counts where the
rounds of both lie apart, and the command then ends with status 1 if something became worse. The
last line of the output is one JSON object.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.harness.performance import PARTS, Part, over_rounds, verdict
from benchmarks.harness.processes import ROOT, benchmark_parser, run_process
from benchmarks.harness.run_folder import claim
from common import provenance
from common.commands import one_line_errors
from common.errors import UserError
from common.files import atomic_write
from common.tables import emit_json, print_table

COLUMNS = ("part", "figure", "median", "min", "max", "rounds", "before", "")
NO_TIME = "no time left"


class PerformanceError(UserError, ValueError):
    """A record that does not fit; the message says why."""


@dataclass(frozen=True)
class Budget:
    """The time of all parts together; a part is begun only where its longest run would fit."""

    deadline: float

    @property
    def left(self) -> float:
        """Seconds until all must be done."""
        return self.deadline - time.monotonic()

    def fits(self, seconds: float) -> bool:
        """Return whether a run of so many seconds ends in time."""
        return self.left > max(seconds, 0.0)


def run_round(part: Part, number: int, folder: Path, budget: Budget) -> dict[str, Any]:
    """Run a part once and keep what it gave; one that is kept already is not run again."""
    kept = folder / f"{part.name}-{number}.json"
    if kept.is_file():
        return _read(kept)
    earlier = [_read(file)["seconds"] for file in folder.glob(f"{part.name}-*.json")]
    if not budget.fits(max(earlier, default=0.0)):
        return {"status": NO_TIME}
    command = [sys.executable, str(ROOT / "benchmarks" / f"{part.name}.py"), *part.arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    started = time.monotonic()
    result = run_process(command, environment, budget.left)
    seconds = round(time.monotonic() - started, 1)
    done = {"status": result.status, "seconds": seconds, "figures": result.figures}
    if result.ok:
        with atomic_write(kept) as handle:
            json.dump(done, handle)
    return done


def _read(file: Path) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return done


def settings_of(parts: Sequence[Part]) -> dict[str, Any]:
    """Return what all runs of a folder have in common: the commit, and each part's arguments."""
    arguments = {part.name: " ".join(part.arguments) for part in parts}
    return {"commit": provenance.git_state()["commit"], **arguments}


def measure(parts: Sequence[Part], rounds: int, folder: Path, budget: Budget) -> dict[str, Any]:
    """Return by part its status, seconds and figures over the rounds that ran."""
    runs: dict[str, list[dict[str, Any]]] = {part.name: [] for part in parts}
    turns = [
        (number, part)
        for number in range(rounds)
        for part in parts
        if number < (part.rounds or rounds)
    ]
    for number, part in (progress := tqdm(turns, desc="performance", unit=" runs")):
        progress.set_postfix_str(part.name)
        if not any(_is_hopeless(run) for run in runs[part.name]):
            runs[part.name].append(run_round(part, number, folder, budget))
    return {part.name: _summary(part, runs[part.name]) for part in parts}


def _is_hopeless(run: Mapping[str, Any]) -> bool:
    """Return whether a part failed by itself: it would again."""
    return run["status"] not in ("ok", NO_TIME, "timed out")


def _summary(part: Part, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    done = [run for run in runs if run["status"] == "ok"]
    failed = next((run["status"] for run in runs if run["status"] != "ok"), "ok")
    return {
        "status": "ok" if len(done) == len(runs) else failed,
        "arguments": " ".join(part.arguments),
        "seconds": [run["seconds"] for run in done],
        "figures": over_rounds(part, [run["figures"] for run in done]),
    }


def read_record(file: Path) -> dict[str, Any]:
    """Return a record's results.json. Raises PerformanceError for a file that holds none."""
    try:
        record = _read(file)
        return {"parts": dict(record["parts"]), "machine": record["machine"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PerformanceError(
            f"{file}: holds no results of benchmarks/all.py ({error}). Give the results.json "
            "that record.py wrote of it"
        ) from error


def compare(report: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the verdict of each figure against a record's, by part."""
    same = before["machine"] == report["machine"]
    return {
        name: {
            figure: verdict(figure, values, _figure(before["parts"], name, figure), same)
            for figure, values in part["figures"].items()
        }
        for name, part in report["parts"].items()
    }


def _figure(parts: Mapping[str, Any], name: str, figure: str) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = parts.get(name, {}).get("figures", {}).get(figure)
    return found


def rows(report: Mapping[str, Any], before: Mapping[str, Any]) -> list[list[Any]]:
    """Return a row a figure, or one a part that has none."""
    found = []
    for name, part in report["parts"].items():
        if part["status"] != "ok":
            found.append([name, part["status"], *[None] * (len(COLUMNS) - 2)])
        for figure, values in part["figures"].items():
            said = report["verdicts"].get(name, {}).get(figure, "")
            earlier = (_figure(before, name, figure) or {}).get("median")
            ends = [values[end] for end in ("median", "min", "max", "rounds")]
            found.append([name, figure, *ends, earlier, said])
    return found


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add, names = parser.add_argument, [part.name for part in PARTS]
    add("--minutes", type=float, default=60.0, help="for all parts together (default: 60)")
    add("--rounds", type=int, default=3, help="of each part, interleaved (default: 3)")
    add("--parts", nargs="+", choices=names, default=names, help="(default: all)")
    add("--out", required=True, type=Path, help="folder of what each run gave; goes on there")
    add("--against", type=Path, help="results.json of a record to compare with")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if options.minutes <= 0 or options.rounds < 1:
        parser.error("--minutes must be above 0 and --rounds at least 1")
    # First, so that a wrong file ends the command before an hour of measuring.
    before = read_record(options.against) if options.against else None
    chosen = [part for part in PARTS if part.name in options.parts]
    claim(options.out, settings_of(chosen))
    budget = Budget(time.monotonic() + 60 * options.minutes)
    able = [part for part in chosen if not part.missing]
    missing = {
        part.name: {"status": f"{part.needs} is not installed", "seconds": [], "figures": {}}
        for part in chosen
        if part.missing
    }
    report: dict[str, Any] = {
        "benchmark": "all",
        "minutes": options.minutes,
        "machine": provenance.machine(),
        "parts": {**measure(able, options.rounds, options.out, budget), **missing},
        "verdicts": {},
    }
    if before is not None:
        report["verdicts"] = compare(report, before)
    print_table("Performance", COLUMNS, rows(report, before["parts"] if before else {}))
    emit_json(report)
    if any(said == "worse" for part in report["verdicts"].values() for said in part.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
