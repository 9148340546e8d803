"""Reward trajectories anew, under other weights or of questions that were annotated since.

python inference/reward.py --trajectories runs/rollout/trajectories.jsonl --dataset train.jsonl \\
    --weights recall=0.3 undrawn=0.06 --out runs/rewarded.jsonl

Drawing takes hours and rewarding seconds: what was drawn once serves to compare rewards. Nothing
but em, f1, the rewards and the digest of each line changes (docs/outcomes.md).
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

from common.commands import command_parser
from common.errors import RecordError
from common.files import atomic_write
from common.tables import emit_json
from evaluation.rewards import PARTS, RewardWeights, check_annotations
from inference.opening.arguments import command, configure_logging
from inference.rollouts.outcome import judged, summarise
from inference.rollouts.report import print_outcome
from inference.rollouts.run import baseline_digest, check_baseline, digest_of, read_baseline
from inference.runs.evaluation import read_questions
from models.formats.records import QuestionRecord, read_numbered, record_line
from models.formats.trajectories import Trajectory


def rewarded(
    path: Path,
    questions: Mapping[str, QuestionRecord],
    weights: RewardWeights,
    baseline: Mapping[str, float],
) -> Iterator[Trajectory]:
    """Yield a file's trajectories with their new rewards.

    questions, baseline: records, and a baseline's F1, by question id. Raises RecordError for a
    trajectory of a question that is not there, or has other words.
    """
    judged_by = {"weights": vars(weights), "baseline": baseline_digest(baseline)}
    for line, made in read_numbered(path, Trajectory):
        record = questions.get(made.id)
        if record is None or record.question != made.question:
            problem = f"'{made.id}' is {'not' if record is None else 'another question'} there"
            raise RecordError(
                f"{path}:{line}", "id", problem, "Give the --dataset that was rolled out"
            )
        # Lines of another reward do not fit these.
        digest = digest_of({"rollout": made.rollout, **judged_by})
        yield replace(judged(made, record, weights, baseline), rollout=digest)


def written(trajectories: Iterable[Trajectory], out: IO[str]) -> Iterator[Trajectory]:
    """Yield trajectories, each once it is written."""
    for made in trajectories:
        out.write(record_line(made))
        yield made


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--trajectories", required=True, type=Path, help="trajectories.jsonl of a rollout")
    add("--dataset", required=True, type=Path, help="its questions in the JSON Lines contract")
    add(
        "--weights", nargs="+", default=[], metavar="PART=WEIGHT",
        help=f"of the reward's parts: {', '.join(PARTS)} (default: those of rollout.py, not those "
        "that the rollout was given)",
    )  # fmt: skip
    add(
        "--baseline", type=Path, metavar="RUN",
        help="evaluation of plain retrieval with the same reader, for the part gain",
    )  # fmt: skip
    add("--out", required=True, type=Path, help="trajectories with the new rewards")
    add("--json", action="store_true", help="print the results as one JSON object")
    return parser


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    weights = RewardWeights.read(arguments.weights)
    check_baseline(weights, arguments.baseline)
    baseline = read_baseline(arguments.baseline)
    records = read_questions(arguments.dataset, None)
    check_annotations(weights, records)
    questions = {record.id: record for record in records}
    with atomic_write(arguments.out) as out:
        made = rewarded(arguments.trajectories, questions, weights, baseline)
        results = summarise(written(made, out))
    print_outcome(f"{arguments.out}, rewarded anew", results)
    if arguments.json:
        emit_json(results)


if __name__ == "__main__":
    main()
