"""Trajectories an hour by engine, and the same rollout killed again and again.

    benchmarks/rollouts.py --engines transformers vllm --kills 5 -- --dataset TRAIN.jsonl \\
        --corpus CORPUS.jsonl --loop ras --limit 20 --group 4

Each engine runs inference/rollout.py with what stands after `--` twice: in one go, and with all of
its processes killed at random moments, each time resumed. Nothing may be missing or there twice
then, and every line that was written before a kill must still be there. `ray` is one engine of
transformers a thread. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.harness.processes import available_threads, benchmark_parser, environment
from common.commands import one_line_errors
from common.errors import UserError
from common.tables import emit_json, print_table
from evaluation.runs import PROGRESS_FILE, RESULTS_FILE
from inference.opening.arguments import positive_int, whole_number
from models.formats.records import read_records
from models.formats.trajectories import TRAJECTORIES_FILE, Trajectory

ROLLOUT = Path(__file__).resolve().parents[1] / "inference" / "rollout.py"
ENGINES = ("transformers", "vllm", "ray")
SECONDS_BETWEEN_LOOKS = 0.05
COLUMNS = ("trajectories", "trajectories_per_hour", "rollout_seconds", "killed", "missing",
           "doubled", "lost_lines", "same")  # fmt: skip


class RolloutFailedError(UserError, RuntimeError):
    """A rollout that cannot begin, or ended by itself with an error."""


class RolloutCommand:
    """One rollout into a folder, run as often as it takes."""

    def __init__(self, out: Path, options: Sequence[str], threads: int) -> None:
        """Begin anew: seconds of one that goes on are not its own. Raises RolloutFailedError."""
        if out.exists():
            raise RolloutFailedError(f"{out} is there already. Remove it, or name another --dir")
        self.out = out
        self._options = list(options)
        self._environment = environment(threads)

    def finish(self) -> dict[str, Any]:
        """Run to the end; returns the results. Raises RolloutFailedError."""
        with self._run() as process:
            self._check(process.wait())
        results: dict[str, Any] = json.loads((self.out / RESULTS_FILE).read_text(encoding="utf-8"))
        return results

    def killed_at(self, count: int) -> list[bytes]:
        """Run until so many trajectories are kept, kill all its processes; returns what is kept."""
        with self._run() as process:
            while process.poll() is None and len(self.kept()) < count:
                time.sleep(SECONDS_BETWEEN_LOOKS)
            if process.poll() is not None:
                self._check(process.returncode)
        return self.kept()

    def kept(self) -> list[bytes]:
        """Return the whole lines on disk of a rollout that is not finished."""
        path = self.out / PROGRESS_FILE
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        return [line for line in lines if line.endswith(b"\n")]

    @contextmanager
    def _run(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start it; what still runs at the end of the block is killed with all its processes."""
        again = ["--resume"] if self.out.exists() else []
        with (self.out.parent / f"{self.out.name}.log").open("ab") as log:
            # A group of its own: an engine has processes of its own.
            process = subprocess.Popen(
                [
                    sys.executable, str(ROLLOUT), "--out", str(self.out), *again,
                    # What another engine has read is not to be found.
                    "--cache", str(self.out.with_suffix(".sqlite")), *self._options,
                ],
                env=self._environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _check(self, status: int) -> None:
        if status:
            log = self.out.parent / f"{self.out.name}.log"
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RolloutFailedError(f"{ROLLOUT.name} ended with code {status}: {said[-1]}")


def measure(engine: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of an engine's rollout, in one go and killed."""
    given, threads = [*options.rollout, "--engine", engine], options.threads
    if engine == "ray":
        each = ("--ray-engine", "transformers", "--engine-cpus", "1")
        given, threads = [*given, "--engines", str(threads), *each], 1
    whole = RolloutCommand(folder / f"{engine}-whole", given, threads)
    results = whole.finish()
    wanted = outcomes(whole.out)
    command = RolloutCommand(folder / f"{engine}-killed", given, threads)
    chance = random.Random(options.seed)
    places = sorted(chance.sample(range(1, len(wanted)), min(options.kills, len(wanted) - 1)))
    written: set[bytes] = set()
    for place in tqdm(places, desc=f"{engine}, killed", unit=" kills"):
        written |= set(command.killed_at(place))
    command.finish()
    lines = (command.out / TRAJECTORIES_FILE).read_bytes().splitlines(keepends=True)
    made = outcomes(command.out)
    return {
        "trajectories": len(wanted),
        "rollout_seconds": results["seconds"],
        "trajectories_per_hour": 3600 * len(wanted) / results["seconds"],
        "errors": results["errors"],
        "killed": len(places),
        "missing": len(wanted.keys() - made.keys()),
        "doubled": len(lines) - len(made),
        "lost_lines": len(written - set(lines)),
        # In other company a sum of floats may end otherwise, and so may a near tie.
        "same": sum(wanted[key] == made.get(key) for key in wanted),
    }


def outcomes(folder: Path) -> dict[tuple[str, int], Any]:
    """Return of each trajectory of a finished rollout the tokens that it drew and its answer."""
    return {
        each.key: ([call.token_ids for call in each.sampled_calls], each.answer)
        for each in read_records(folder / TRAJECTORIES_FILE, Trajectory)
    }


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add(
        "--engines",
        nargs="+",
        choices=ENGINES,
        default=ENGINES[:2],
        help="(default: the first two)",
    )
    add("--kills", type=whole_number(0), default=5, help="of the second run (default: 5)")
    add("--threads", type=positive_int, default=available_threads(), help="(default: all cores)")
    add("--seed", type=int, default=0, help="of when it is killed (default: 0)")
    add("--dir", type=Path, help="folder for the rollouts, kept (default: a temporary one)")
    add("rollout", nargs="*", metavar="option", help="after --: options of inference/rollout.py")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.dir or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        engines = {name: measure(name, folder, options) for name in options.engines}
    rows = [[name, *(found[column] for column in COLUMNS)] for name, found in engines.items()]
    print_table("Rollouts", ["engine", *COLUMNS], rows)
    emit_json({"benchmark": "rollouts", "threads": options.threads, "engines": engines})


if __name__ == "__main__":
    main()
