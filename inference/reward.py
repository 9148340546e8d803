"""Reward trajectories anew, under other weights or of questions that were annotated since.

python inference/reward.py --trajectories runs/rollout/trajectories.jsonl --dataset train.jsonl \\
    --weights recall=0.3 undrawn=0.06 --out runs/rewarded.jsonl

Drawing takes hours and rewarding seconds: what was drawn once serves to compare rewards. Nothing
but em, f1, the rewards and the digest of each line changes (docs/outcomes.md).
"""

import argparse
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from common.commands import command_parser
from common.errors import RecordError
from common.tables import emit_json
from evaluation.rewards import PARTS, RewardWeights, reward_parts
from inference.opening.arguments import command, configure_logging
from inference.rollouts.outcome import summarise
from inference.rollouts.report import print_outcome
from inference.rollouts.run import read_baseline
from inference.runs.evaluation import read_questions
from models.formats.records import QuestionRecord, read_numbered, read_records, write_records
from models.formats.trajectories import Trajectory


@dataclass(frozen=True)
class Rewarding:
    """What trajectories are judged by: questions by id, weights, and a baseline's F1 by id."""

    questions: Mapping[str, QuestionRecord]
    weights: RewardWeights
    baseline: Mapping[str, float]

    def rewarded(self, path: Path) -> Iterator[Trajectory]:
        """Yield a file's trajectories with their new rewards.

        Raises RecordError for one of a question that is not there, or has other words.
        """
        for line, made in read_numbered(path, Trajectory):
            record = self.questions.get(made.id)
            if record is None or record.question != made.question:
                problem = f"'{made.id}' is {'not' if record is None else 'another question'} there"
                raise RecordError(
                    f"{path}:{line}", "id", problem, "Give the --dataset that was rolled out"
                )
            yield self.judged(made, record)

    def judged(self, made: Trajectory, record: QuestionRecord) -> Trajectory:
        """Return a trajectory with its new rewards."""
        parts = reward_parts(made, record, self.baseline.get(record.id))
        return replace(
            made,
            em=parts["em"],
            f1=parts["f1"],
            reward=self.weights.total(parts),
            reward_parts=parts,
            rollout=self.digest(made.rollout),
        )

    def digest(self, rollout: str) -> str:
        """Return the digest of a rollout that was rewarded so: no other reward's lines fit it."""
        text = f"{rollout} {sorted(vars(self.weights).items())} {sorted(self.baseline.items())}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--trajectories", required=True, type=Path, help="trajectories.jsonl of a rollout")
    add("--dataset", required=True, type=Path, help="its questions in the JSON Lines contract")
    add(
        "--weights", nargs="+", default=[], metavar="PART=WEIGHT",
        help=f"of the reward's parts, as of rollout.py: {', '.join(PARTS)}",
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
    questions = {record.id: record for record in read_questions(arguments.dataset, None)}
    rewarding = Rewarding(
        questions, RewardWeights.read(arguments.weights), read_baseline(arguments.baseline)
    )
    write_records(arguments.out, rewarding.rewarded(arguments.trajectories))
    asked: set[str] = set()

    def counted() -> Iterator[Trajectory]:
        for made in read_records(arguments.out, Trajectory):
            asked.add(made.id)
            yield made

    results = {**summarise(counted()), "questions": len(asked)}
    print_outcome(f"{arguments.out}, rewarded anew", results)
    if arguments.json:
        emit_json(results)


if __name__ == "__main__":
    main()
