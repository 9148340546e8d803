"""Answer questions several times with drawn tokens and reward every trajectory: trajectories.jsonl.

python inference/rollout.py --dataset train.jsonl --corpus corpus.jsonl --loop ras --group 8 \\
    --out runs/rollout

A loop is the environment, its answer the outcome. Each line has a trajectory's calls with their
token ids and log-probabilities, its answer and the parts of its reward (docs/outcomes.md). Every
trajectory is on disk at once; a rollout that was interrupted goes on with --resume.
"""

import argparse
import asyncio
from pathlib import Path

from common.commands import command_parser
from common.shards import shard
from common.tables import emit_json
from evaluation.rewards import PARTS, RewardWeights
from inference.opening.arguments import (
    add_searched_corpus,
    command,
    configure_logging,
    positive_int,
    whole_number,
)
from inference.opening.loop import LOOPS
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.rollouts.report import print_outcome
from inference.rollouts.run import BACKBONE, Rollout, run_rollout


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--dataset", required=True, type=Path, help="questions in the JSON Lines contract")
    add_searched_corpus(parser)
    add("--out", required=True, type=Path, help="folder for trajectories.jsonl and results.json")
    add(
        "--group",
        type=positive_int,
        default=Rollout.group,
        help="trajectories a question (default: %(default)s)",
    )
    add(
        "--temperature",
        type=float,
        default=Rollout.temperature,
        help="that tokens are drawn at (default: %(default)s)",
    )
    add("--seed", type=whole_number(0), default=0, help="of all draws (default: 0)")
    add(
        "--sample",
        nargs="+",
        default=[],
        metavar="COMPONENT",
        help=f"components that draw, by adapter, or {BACKBONE}; others are greedy (default: ras; "
        f"{BACKBONE} where the loop has none)",
    )
    add(
        "--weights",
        nargs="+",
        default=[],
        metavar="PART=WEIGHT",
        help=f"of the reward's parts: {', '.join(PARTS)} (default: {_weights()})",
    )
    add(
        "--baseline",
        type=Path,
        metavar="RUN",
        help="evaluation of plain retrieval with the same reader, for the part gain",
    )
    add(
        "--concurrency", type=positive_int, default=128,
        help="trajectories at a time (default: 128)",
    )  # fmt: skip
    add("--limit", type=positive_int, help="only the first so many questions")
    add(
        "--shard",
        type=shard,
        metavar="I/N",
        help="only part I of N of the questions, from 1; the parts' trajectories.jsonl together "
        "are those of the whole",
    )
    add("--resume", action="store_true", help="go on with the rollout that --out holds")
    add_loop_arguments(parser)
    add("--json", action="store_true", help="print the results as one JSON object")
    return parser


def _weights() -> str:
    given = vars(RewardWeights()).items()
    return ", ".join(f"{name}={weight:g}" for name, weight in given if weight)


@command
def main() -> None:
    """Run the command line."""
    parser = _parser()
    arguments = parser.parse_args()
    options = options_from(arguments)
    if LOOPS[options.loop].searches_corpus and arguments.corpus is None:
        parser.error(f"--loop {options.loop} searches a corpus; name it with --corpus")
    configure_logging()
    results = asyncio.run(
        run_rollout(
            Rollout(
                options,
                arguments.dataset,
                arguments.corpus,
                arguments.out,
                arguments.group,
                arguments.temperature,
                arguments.seed,
                arguments.sample,
                RewardWeights.read(arguments.weights),
                arguments.baseline,
                arguments.concurrency,
                arguments.limit,
                arguments.resume,
                arguments.shard,
                arguments.question_documents,
            )
        )
    )
    title = f"{results['loop']} on {results['dataset']}, temperature {results['temperature']:g}"
    print_outcome(title, results)
    if arguments.json:
        emit_json(results)


if __name__ == "__main__":
    main()
