"""Put the shards of an evaluation together: the results of one run over all questions.

    inference/evaluate.py ... --shard 1/2 --out parts/1
    inference/evaluate.py ... --shard 2/2 --out parts/2
    inference/merge_evaluation.py parts/1 parts/2 --out DIR

Proves first that no shard and no question is missing or there twice, that all had the same options
and questions, and that no traces were altered. Scores and intervals are computed from all traces
anew; seconds are the sum over the shards.
"""

import argparse
from pathlib import Path

from common.commands import command_parser
from common.tables import emit_json
from inference.opening.arguments import command, configure_logging
from inference.runs.evaluation import results_of
from inference.runs.log import EvaluationLog, merged_rows, open_evaluation
from inference.runs.scores import show


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("shards", nargs="+", type=Path, metavar="SHARD_DIR", help="made by evaluate.py --shard")
    add("--out", required=True, type=Path, help="folder for results.json and traces.jsonl")
    add("--json", action="store_true", help="print the results as one JSON object")
    return parser


@command
def main() -> None:
    """Run the command line."""
    parser = _parser()
    arguments = parser.parse_args()
    configure_logging()
    if arguments.out.resolve() in {folder.resolve() for folder in arguments.shards}:
        parser.error(f"--out {arguments.out} is one of the shards. Name another folder")
    shards = open_evaluation(arguments.shards)
    rows = merged_rows(shards)
    settings = shards[0].settings
    seconds = sum(stored.card["seconds"] for stored in shards)
    results = results_of(settings, rows, seconds)
    EvaluationLog(arguments.out, settings, resume=False).finish(rows, results)
    show(results, rows)
    if arguments.json:
        emit_json(results)


if __name__ == "__main__":
    main()
