"""Run a loop over a data set and measure it: results.json and traces.jsonl.

Every answer is on disk at once. An evaluation that was interrupted, or whose engine failed, goes on
with --resume: only what is missing or ended in an error is asked again.
"""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from evaluation.report import emit_json, print_table
from inference.command_line import command, configure_logging, positive_int
from inference.evaluation_run import Evaluated, Evaluation, run_evaluation
from inference.gold import mean_by_type
from inference.loop_options import LOOPS_OVER_CORPUS, add_loop_arguments, options_from
from inference.scored_traces import COSTS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--dataset", required=True, type=Path, help="questions in the JSON Lines contract")
    add("--corpus", type=Path, help="JSON Lines of {id, title, text}, for loops that search")
    add("--out", required=True, type=Path, help="folder for results.json and traces.jsonl")
    add("--concurrency", type=positive_int, default=16, help="questions at a time (default: 16)")
    add("--limit", type=positive_int, help="only the first so many questions")
    add("--resume", action="store_true", help="go on with the evaluation that --out holds")
    add_loop_arguments(parser)
    add("--json", action="store_true", help="print the results as one JSON object")
    return parser


def show(done: Evaluated) -> None:
    """Print the scores, by question type and over all, and where questions were lost."""
    results, records, rows = done.results, done.records, done.rows
    by_type = mean_by_type(records, [row["f1"] for row in rows])
    em_by_type = mean_by_type(records, [row["em"] for row in rows])
    table: list[list[Any]] = [
        [name, count, em_by_type[name][1], f1, "", ""] for name, (count, f1) in by_type.items()
    ]
    intervals = ["{:.3f} to {:.3f}".format(*results[name]) for name in ("em_ci95", "f1_ci95")]
    table.append(["all", results["n"], results["em"], results["f1"], *intervals])
    columns = ["type", "questions", "EM", "F1", "EM, 95 %", "F1, 95 %"]
    print_table(f"{results['loop']} on {results['dataset']}", columns, table)
    print_table(
        "Where questions ended", list(results["stages"]), [list(results["stages"].values())]
    )
    costs = (*COSTS, "seconds", "errors")
    print_table("Cost", list(costs), [[results[name] for name in costs]])


@command
def main() -> None:
    """Run the command line."""
    parser = _parser()
    arguments = parser.parse_args()
    options = options_from(arguments)
    if options.loop in LOOPS_OVER_CORPUS and arguments.corpus is None:
        parser.error(f"--loop {options.loop} searches a corpus; name it with --corpus")
    configure_logging()
    done = asyncio.run(
        run_evaluation(
            Evaluation(
                options,
                arguments.dataset,
                arguments.corpus,
                arguments.out,
                arguments.concurrency,
                arguments.limit,
                arguments.resume,
            )
        )
    )
    show(done)
    if arguments.json:
        emit_json(done.results)


if __name__ == "__main__":
    main()
