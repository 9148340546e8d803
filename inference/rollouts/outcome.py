"""What became of a trajectory: its line with rewards, and what all trajectories came to."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from evaluation.rewards import PARTS, RewardWeights, reward_parts
from inference.loops.trace import Trace
from inference.rollouts.recording import BACKBONE, Recorder
from models.formats.records import QuestionRecord
from models.formats.trajectories import Trajectory, TrajectoryBill, TrajectoryStep


@dataclass
class SearchCountingTrace(Trace):
    """A trace that counts its searches."""

    searches: int = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """As of every trace."""
        self.searches += name == "retrieve"
        with super().stage(name):
            yield


@dataclass(frozen=True)
class Judge:
    """Makes a trajectory's line of what its loop did, rewards included.

    baseline: F1 of a baseline's answers by question id. rollout: the digest of its settings.
    """

    seed: int
    temperature: float
    weights: RewardWeights
    baseline: Mapping[str, float]
    rollout: str = ""

    def trajectory(
        self, record: QuestionRecord, trace: SearchCountingTrace, recorder: Recorder
    ) -> Trajectory:
        """Return the trajectory of a question that was answered without an error."""
        made = Trajectory(
            id=record.id,
            type=record.type,
            number=recorder.number,
            question=record.question,
            seed=self.seed,
            temperature=self.temperature,
            calls=recorder.calls,
            steps=[
                TrajectoryStep(
                    step.subquery, [(p.id, p.title) for p in step.passages], list(step.triples)
                )
                for step in trace.steps
            ],
            answer=trace.answer,
            bill=_bill(trace),
            notes=list(trace.notes),
            rollout=self.rollout,
        )
        return judged(made, record, self.weights, self.baseline)


def judged(
    made: Trajectory,
    record: QuestionRecord,
    weights: RewardWeights,
    baseline: Mapping[str, float],
) -> Trajectory:
    """Return a trajectory with what its answer and its conduct are worth.

    baseline: as of a `Judge`.
    """
    parts = reward_parts(made, record, baseline.get(record.id))
    return replace(
        made, em=parts["em"], f1=parts["f1"], reward=weights.total(parts), reward_parts=parts
    )


def _bill(trace: SearchCountingTrace) -> TrajectoryBill:
    bill = trace.bill
    return TrajectoryBill(
        bill.llm_calls,
        bill.input_tokens,
        bill.output_tokens,
        bill.weighted_tokens,
        trace.searches,
        len(trace.steps),
    )


def summarise(trajectories: Iterable[Trajectory]) -> dict[str, Any]:
    """Return counts and means of trajectories, which may be read one at a time.

    sampled: drawn calls by component. A mean is None where nothing has the figure; `without` counts
    the trajectories that lack it.
    best_f1: mean over the questions of the best trajectory's. mixed_groups: questions whose
    trajectories do not all have one reward, which alone have something to tell apart.
    """
    figures: dict[str, list[float]] = {name: [] for name in ("em", "f1", "reward", *PARTS)}
    count, sources, sampled = 0, Counter[str](), Counter[str]()
    questions: set[str] = set()
    best: dict[str, float] = {}
    rewards: dict[str, set[float]] = {}
    for made in trajectories:
        count += 1
        questions.add(made.id)
        sources.update(call.source for call in made.calls)
        sampled.update(c.component or BACKBONE for c in made.calls if c.source == "sampled")
        shown = {**made.reward_parts, "em": made.em, "f1": made.f1, "reward": made.reward}
        for name, value in shown.items():
            if value is not None:
                figures[name].append(value)
        if made.f1 is not None:
            best[made.id] = max(made.f1, best.get(made.id, 0.0))
        if made.reward is not None:
            rewards.setdefault(made.id, set()).add(made.reward)
    means = {name: fmean(values) if values else None for name, values in figures.items()}
    return {
        "questions": len(questions),
        "trajectories": count,
        "calls": dict(sorted(sources.items())),
        "sampled": dict(sorted(sampled.items())),
        **{name: means[name] for name in ("em", "f1", "reward")},
        "best_f1": fmean(best.values()) if best else None,
        "mixed_groups": sum(len(values) > 1 for values in rewards.values()),
        "reward_parts": {name: means[name] for name in PARTS},
        "without": {name: count - len(values) for name, values in figures.items()},
    }
