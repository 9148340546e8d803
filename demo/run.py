"""The whole path on one machine: a world, two trainings, three loops, one question in full."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common.commands import command_parser, one_line_errors
from common.tables import emit_json, print_table
from demo.steps import COMPARED_LOOPS, Step, ask_step, build_steps, evaluate_steps, train_steps
from evaluation.significance import COLUMNS, type_rows

ROOT = Path(__file__).resolve().parent.parent


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--out", type=Path, default=ROOT / "runs" / "demo", help="folder for everything made")
    add("--questions", type=int, default=900, help="questions of the world (default: 900)")
    add("--test-questions", type=int, default=72, help="held-out questions asked (default: 72)")
    add("--t2t-minutes", type=float, default=1.0, help="training text-to-triples (default: 1)")
    add("--ras-minutes", type=float, default=1.5, help="training RAS (default: 1.5)")
    add("--seed", type=int, default=0, help="seed of the world and of the trainings")
    add("--json", action="store_true", help="print the results as one JSON object")
    return parser


def run(step: Step) -> float:
    """Run one command, its output on this terminal; returns seconds. Exits where it fails."""
    sys.stdout.write(f"\n── {step.title}\n   $ {step.shown()}\n")
    sys.stdout.flush()
    start = time.perf_counter()
    # accelerate's launcher would otherwise leave all cores but one idle.
    environment = {"OMP_NUM_THREADS": str(os.cpu_count()), **os.environ}
    status = subprocess.run(
        [sys.executable, *step.arguments], cwd=ROOT, env=environment, check=False
    ).returncode
    if status:
        sys.exit(f"error: {step.title} ended with status {status}; see its output above")
    return time.perf_counter() - start


def example_question(out: Path) -> str:
    """The first question over a chain of facts that `ras` answered right, or the first of all."""
    with (out / "results" / "ras" / "traces.jsonl").open(encoding="utf-8") as lines:
        traces = [json.loads(line) for line in lines]
    chains = [trace for trace in traces if trace["type"] == "bridge"] or traces
    chains.sort(key=lambda trace: -trace["em"])
    return str(chains[0]["question"])


def results_of(out: Path) -> list[dict[str, Any]]:
    """What `evaluate.py` wrote for each loop, in order."""
    return [
        json.loads((out / "results" / loop / "results.json").read_text(encoding="utf-8"))
        for loop in COMPARED_LOOPS
    ]


def show_results(results: list[dict[str, Any]], seconds: dict[str, float]) -> None:
    """Print times and scores, by question type too."""
    rows = [[title, f"{value:.0f}"] for title, value in seconds.items()]
    rows.append(["all together", f"{sum(seconds.values()):.0f}"])
    print_table("Seconds", ["step", "seconds"], rows)
    table = [
        [r["loop"], r["n"], r["em"], "{:.2f} to {:.2f}".format(*r["em_ci95"]), r["f1"]]
        for r in results
    ]
    columns = ["loop", "questions", "EM", "EM, 95 %", "F1"]
    print_table("Held-out questions of the world", columns, table)
    by_type = [[r["loop"], *row] for r in results for row in type_rows(r["by_type"])]
    print_table("Held-out questions by type", ["loop", *COLUMNS], by_type)


@one_line_errors()
def main() -> None:
    """Run every step in turn."""
    arguments = _parser().parse_args()
    out = arguments.out.resolve()
    steps = [
        *build_steps(out, arguments.questions, arguments.seed),
        *train_steps(out, arguments.t2t_minutes, arguments.ras_minutes, arguments.seed),
        *evaluate_steps(out, arguments.test_questions),
    ]
    seconds = {step.title: run(step) for step in steps}
    results = results_of(out)
    show_results(results, seconds)
    run(ask_step(out, example_question(out)))
    if arguments.json:
        emit_json({"results": results, "seconds": seconds})


if __name__ == "__main__":
    main()
