"""Plans of several steps out of trajectories whose answer was right."""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.files import file_sha256
from data_gen.samples.plans_ahead import samples_ahead
from data_gen.sources.splits import split_of
from data_gen.streaming.files import record_files
from models.formats.planning import PlanAction
from models.formats.records import RasSample, read_records, record_line
from models.formats.trajectories import Trajectory


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
        """Write train.jsonl and dev.jsonl; returns their counts.

        Raises ValueError for none, and for two trajectories of one number.
        """
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
        taken: set[tuple[str, int]] = set()
        for path in self.options.trajectories:
            for trajectory in tqdm(read_records(path, Trajectory), desc=path.name, unit=" lines"):
                self.read[path] += 1
                if (trajectory.id, trajectory.number) in taken:
                    raise ValueError(
                        f"{path}: trajectory {trajectory.number} of question {trajectory.id!r} "
                        "came before. Name each file once, and of two rollouts of a question one; "
                        "a larger --group rolls out more"
                    )
                taken.add((trajectory.id, trajectory.number))
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
