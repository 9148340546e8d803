"""Build plans of several steps out of trajectories whose answer was right.

    data_gen/build_plans_ahead.py --trajectories runs/rollout/trajectories.jsonl --out DIR

A planner that looks again after each step reads its history once a step. Of inference/rollout.py's
trajectories that reached their answer, DIR/{train,dev}.jsonl have the same steps with as few looks
as they need: subqueries that do not need each other's answers in one plan, and [SUFFICIENT] behind
the last. With --least-recall the plans of wrong answers are taken too, without the answer, where
they found the annotated passages. A planner trained on them with training/train_ras.py writes them
so; the loop searches them at once (docs/outcomes.md). dev has a share of the questions. Writes
card.json and card.md."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.commands import add_output_options, command_parser, log_warnings, one_line_errors, share
from common.tables import report
from data_gen.builds.cards import write_card
from data_gen.builds.plans_ahead import PlansAhead
from data_gen.streaming.files import output

SHOWN = ("splits", "plans", "calls of the planner", "answers", "left_out")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    parser = command_parser(__doc__)
    add = parser.add_argument
    add(
        "--trajectories", type=Path, action="append", required=True, metavar="FILE",
        help="trajectories.jsonl of a rollout of the RAS loop, several times",
    )  # fmt: skip
    add(
        "--least-f1", type=share, default=1.0,
        help="of a trajectory's answer, for its plans to be learnt (%(default)s)",
    )  # fmt: skip
    add(
        "--least-recall", type=share, metavar="SHARE",
        help="of the annotated passages, for the plans alone of a wrong answer to be learnt too "
        "(default: none of a wrong answer)",
    )  # fmt: skip
    add("--dev-fraction", type=share, default=0.05, help="share of questions (%(default)s)")
    add("--seed", type=int, default=0, help="seed of the split (%(default)s)")
    add_output_options(parser)
    return parser.parse_args(arguments)


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    log_warnings(options)
    made = PlansAhead(options)
    with output(options.out) as (folder, _):
        card = made.card(made.write(folder))
        write_card(folder, card)
    shown = {name: card[name] for name in SHOWN}
    rows: list[list[Any]] = [
        [kind, name, count] for kind, found in shown.items() for name, count in found.items()
    ]
    report(card["title"], ["kind", "what", "number"], rows, options, shown)


if __name__ == "__main__":
    main()
