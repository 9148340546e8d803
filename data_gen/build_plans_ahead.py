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
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.commands import add_output_options, command_parser, log_warnings, one_line_errors, share
from common.files import file_sha256
from common.tables import report
from data_gen.builds.cards import write_card
from data_gen.samples.plans_ahead import samples_ahead
from data_gen.sources.splits import split_of
from data_gen.streaming.files import output, record_files
from models.formats.planning import PlanAction
from models.formats.records import RasSample, read_records, record_line
from models.formats.trajectories import Trajectory

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


class PlansAhead:
    """Reads trajectories once and counts what becomes of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.left_out: Counter[str] = Counter()
        self.plans: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.read: Counter[Path] = Counter()

    def write(self, folder: Path) -> dict[str, int]:
        """Write train.jsonl and dev.jsonl; returns their counts. Raises ValueError for none."""
        counts = {"train": 0, "dev": 0}
        dev = self.options.dev_fraction
        with record_files(folder, counts) as files:
            for trajectory in self._read():
                name = split_of(trajectory.id, self.options.seed, (1 - dev, dev, 0.0))
                for sample in self._samples(trajectory):
                    files[name].write(record_line(sample))
                    counts[name] += 1
        if not counts["train"]:
            raise ValueError(
                f"no trajectory to learn from: {dict(self.left_out)}. Roll out more questions, or "
                "take a lower --least-f1 or --least-recall"
            )
        return counts

    def _read(self) -> Iterator[Trajectory]:
        for path in self.options.trajectories:
            for trajectory in tqdm(read_records(path, Trajectory), desc=path.name, unit=" lines"):
                self.read[path] += 1
                yield trajectory

    def _samples(self, trajectory: Trajectory) -> list[RasSample]:
        """Return what a trajectory teaches; nothing, which is counted, for a wrong answer."""
        if trajectory.f1 is None:
            self.left_out["without a gold answer"] += 1
            return []
        is_right = trajectory.f1 >= self.options.least_f1
        if not is_right and not self._has_found(trajectory):
            self.left_out["not right"] += 1
            return []
        samples = samples_ahead(trajectory)
        if not samples:
            self.left_out["not ended by its planner"] += 1
        planned = [sample for sample in samples if sample.task == "plan"]
        for sample in planned:
            asked = sample.label.count(PlanAction.SUBQ)
            ends = bool(asked) and sample.label.endswith(PlanAction.SUFFICIENT)
            self.plans[f"{asked} subqueries{', then enough' if ends else ''}"] += 1
        if planned:
            self.calls["before"] += len(trajectory.asked("plan"))
            self.calls["ahead"] += len(planned)
            self.answers["right" if is_right else "wrong, passages found"] += 1
        return samples if is_right else planned

    def _has_found(self, trajectory: Trajectory) -> bool:
        """Return whether a trajectory found the asked-for share of its annotated passages."""
        least, found = self.options.least_recall, trajectory.reward_parts.get("recall")
        return least is not None and found is not None and found >= least

    def card(self, counts: dict[str, int]) -> dict[str, Any]:
        """Return the card of the samples."""
        return {
            "title": "Plans of several steps",
            "splits": counts,
            "plans": dict(sorted(self.plans.items())),
            "calls of the planner": dict(self.calls),
            "answers": dict(self.answers),
            "left_out": dict(self.left_out),
            "options": {
                "least_f1": self.options.least_f1,
                "least_recall": self.options.least_recall,
                "dev_fraction": self.options.dev_fraction,
            },
            "sources": [
                {
                    "name": "contract",
                    "file": path.name,
                    "sha256": file_sha256(path),
                    "records": self.read[path],
                }
                for path in self.options.trajectories
            ],
            "seed": self.options.seed,
        }


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
