"""Run a loop over a data set and measure it: results.json and traces.jsonl.

Every answer is on disk at once. An evaluation that was interrupted, or whose engine failed, goes on
with --resume: only what is missing or ended in an error is asked again.
"""

import argparse
import asyncio
from pathlib import Path

from common.commands import command_parser
from common.shards import shard
from common.tables import emit_json
from inference.opening.arguments import (
    add_searched_corpus,
    command,
    configure_logging,
    positive_int,
)
from inference.opening.loop import LOOPS
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.runs.evaluation import Evaluation, run_evaluation
from inference.runs.scores import show, show_shard


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--dataset", required=True, type=Path, help="questions in the JSON Lines contract")
    add_searched_corpus(parser)
    add("--out", required=True, type=Path, help="folder for results.json and traces.jsonl")
    add("--concurrency", type=positive_int, default=16, help="questions at a time (default: 16)")
    add("--limit", type=positive_int, help="only the first so many questions")
    add(
        "--shard",
        type=shard,
        metavar="I/N",
        help="only part I of N of the questions, from 1; inference/merge_evaluation.py puts the "
        "parts together",
    )
    add("--resume", action="store_true", help="go on with the evaluation that --out holds")
    add_loop_arguments(parser)
    add("--json", action="store_true", help="print the results as one JSON object")
    return parser


@command
def main() -> None:
    """Run the command line."""
    parser = _parser()
    arguments = parser.parse_args()
    options = options_from(arguments)
    if LOOPS[options.loop].searches_corpus and arguments.corpus is None:
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
                arguments.shard,
                arguments.question_documents,
            )
        )
    )
    if arguments.shard:
        show_shard(done.results)
    else:
        show(done.results, done.rows)
    if arguments.json:
        emit_json(done.results)


if __name__ == "__main__":
    main()
