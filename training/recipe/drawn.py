"""Drawn calls of trajectories, each with what its trajectory's reward makes of it."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import cast

from common.errors import RecordError, UserError
from models.formats.model_calls import ModelCall
from models.formats.records import read_numbered
from models.formats.trajectories import Trajectory
from models.parts.objective import ObjectiveKind

logger = logging.getLogger(__name__)
# Rewards that are closer than this are equal.
SAME_REWARD = 1e-9
REMEDY = "Roll out again with inference/rollout.py and the component that is trained"


class OutcomeError(UserError, ValueError):
    """Trajectories that are not this component's to learn from; says why."""


class NothingToLearnError(OutcomeError):
    """Trajectories of which the objective takes nothing: others of the same kind may do."""


@dataclass(frozen=True)
class DrawnCall:
    """A call to learn from.

    id: of its question, trajectory and place. advantage: of its trajectory, see `Outcomes`.
    anchored: the trajectory is below its group's mean.
    """

    id: str
    call: ModelCall
    advantage: float = 1.0
    anchored: bool = False


@dataclass(frozen=True)
class DrawnPair:
    """Two answers to one prompt, of which one led to the better outcome."""

    better: DrawnCall
    worse: DrawnCall

    @property
    def id(self) -> str:
        """Return the id of the better one."""
        return self.better.id


@dataclass
class Drawn:
    """What trajectories give to learn from, and why the rest gives nothing.

    temperature: that all calls were drawn at. counts: trajectories, groups and calls, by what
    became of them.
    """

    items: list[DrawnCall] | list[DrawnPair]
    temperature: float
    counts: dict[str, int] = field(default_factory=dict)

    def only(self, rows: Sequence[int]) -> Drawn:
        """Return the same with these items alone."""
        items = [self.items[row] for row in rows]
        return replace(self, items=cast("list[DrawnCall] | list[DrawnPair]", items))


def read_drawn(
    path: str | Path,
    kind: ObjectiveKind,
    components: Sequence[str],
    version: str,
    least_reward: float,
) -> Drawn:
    """Read a file of trajectories for one component.

    path: a rollout's trajectories.jsonl. components: the names of its adapter. version: its
    fingerprint. least_reward: of a trajectory whose likelihood `best_of` raises.

    Groups whose rewards are all equal or of which there is one trajectory alone, and trajectories
    without a reward, are left out and counted.

    Raises:
        OutcomeError: trajectories of another version of the component, of two rollouts' settings,
            at several temperatures, two of one number, or no drawn call of the component.
        NothingToLearnError: all is left out, or no trajectory is good enough.
        RecordError: a line that is no trajectory, or a likelihood that is not finite.
    """
    file = Path(path)
    if not file.is_file():
        raise OutcomeError(f"{file}: no such file of trajectories. {REMEDY}")
    counts: Counter[str] = Counter()
    groups: dict[str, list[Trajectory]] = {}
    checked = _Checked(kind, components, version)
    for line, trajectory in read_numbered(file, Trajectory):
        checked.check(trajectory, f"{file}:{line}")
        groups.setdefault(trajectory.id, []).append(trajectory)
        counts["trajectories"] += 1
    if not checked.calls:
        named = " or ".join(map(repr, components))
        raise OutcomeError(
            f"{file}: no call of {named} was drawn in it, but of "
            f"{sorted(checked.others) or 'nothing'}. Roll out a loop that asks this component, "
            f"with --sample {components[0]}"
        )
    items: list[DrawnCall] | list[DrawnPair]
    told = list(_told_groups(groups, counts))
    if kind == "preference":
        items = [pair for group in told for pair in _pairs(group, components)]
        counts["pairs"] = len(items)
    else:
        find = _kept if kind == "best_of" else _all
        items = [one for group in told for one in find(group, components, least_reward)]
        counts["calls"] = len(items)
    if not items:
        raise NothingToLearnError(
            f"{file}: nothing to learn from in {dict(counts)}: every question's trajectories are "
            "worth the same, or too little. Draw more a question, at a higher temperature, or "
            "reward otherwise"
        )
    logger.info("%s: %s", file, dict(counts))
    return Drawn(items, checked.temperature, dict(counts))


class _Checked:
    """Refuses trajectories that do not belong together, or not to the component."""

    def __init__(self, kind: ObjectiveKind, components: Sequence[str], version: str) -> None:
        self.kind, self.components, self.version = kind, components, version
        self.keys: set[tuple[str, int]] = set()
        self.questions: dict[str, str] = {}
        self.rollout = ""
        self.temperature = 0.0
        self.calls = 0
        self.others: set[str] = set()

    def check(self, trajectory: Trajectory, where: str) -> None:
        if trajectory.key in self.keys:
            raise OutcomeError(
                f"{where}: number {trajectory.number} of question '{trajectory.id}' is there "
                "twice. Leave out the shard that is there twice"
            )
        self.keys.add(trajectory.key)
        if self.questions.setdefault(trajectory.id, trajectory.question) != trajectory.question:
            raise OutcomeError(
                f"{where}: '{trajectory.id}' is two questions: trajectories of two data sets do "
                "not belong in one file. Give each question an id of its own"
            )
        # Lines from before a rollout noted its settings have none to compare.
        self.rollout = self.rollout or trajectory.rollout
        if trajectory.rollout and trajectory.rollout != self.rollout:
            raise OutcomeError(
                f"{where}: field 'rollout': {trajectory.rollout!r}, and {self.rollout!r} before: "
                "trajectories of two loops, corpora or rewards do not belong in one file. Train "
                "on those of one rollout and its shards"
            )
        for place, call in enumerate(trajectory.calls):
            name = call.component or "backbone"
            if not call.is_sampled:
                continue
            if name in self.components:
                self._check_call(call, f"{where}: calls[{place}]")
                self.calls += 1
            else:
                self.others.add(name)

    def _check_call(self, call: ModelCall, where: str) -> None:
        if call.version != self.version:
            raise OutcomeError(
                f"{where}: field 'version': {call.component} was {call.version!r} when it drew, "
                f"and {self.version!r} is trained. {REMEDY}"
            )
        if call.input_ids is None:
            raise OutcomeError(
                f"{where}: field 'input_ids': there are none to learn from. {REMEDY}"
            )
        if not self.temperature:
            self.temperature = call.temperature
        if call.temperature != self.temperature:
            raise OutcomeError(
                f"{where}: field 'temperature': was drawn at {call.temperature}, and others at "
                f"{self.temperature}. "
                "Train on trajectories of one temperature"
            )
        if not all(map(math.isfinite, call.logprobs or ())):
            raise RecordError(where, "logprobs", "not all are finite", REMEDY)
        if self.kind != "best_of" and not _is_plain(call):
            raise OutcomeError(
                f"{where}: was held to a constraint, cut by top_p, or its likelihood is not that "
                "of its draw, so that a ratio to it says nothing. Roll out without --constrain, or "
                "train with objective.kind=best_of"
            )


def _is_plain(call: ModelCall) -> bool:
    """Whether likelihoods are those of softmax(logits / temperature)."""
    as_drawn = call.logprobs_of == "sampled" or call.temperature == 1.0
    return as_drawn and call.constraint is None and call.top_p >= 1.0


def _told_groups(
    groups: Mapping[str, Sequence[Trajectory]], counts: Counter[str]
) -> Iterator[list[tuple[Trajectory, float]]]:
    """Yield the groups that have something to tell apart, with rewards."""
    for group in groups.values():
        told = [(t, t.reward) for t in group if t.reward is not None]
        counts["without a reward"] += len(group) - len(told)
        if len(told) < 2:
            counts["groups of one"] += bool(told)
            continue
        rewards = [reward for _, reward in told]
        if max(rewards) - min(rewards) < SAME_REWARD:
            counts["groups of equal rewards"] += 1
            continue
        counts["groups"] += 1
        yield told


def _calls(trajectory: Trajectory, components: Sequence[str]) -> list[tuple[str, ModelCall]]:
    calls = [c for c in trajectory.sampled_calls if (c.component or "backbone") in components]
    return [(f"{trajectory.id}/{trajectory.number}/{n}", call) for n, call in enumerate(calls)]


def leave_one_out(rewards: Sequence[float]) -> list[float]:
    """Return each reward less the mean of the others."""
    total, others = sum(rewards), len(rewards) - 1
    return [reward - (total - reward) / others for reward in rewards]


def _all(
    group: Sequence[tuple[Trajectory, float]], components: Sequence[str], least_reward: float
) -> Iterator[DrawnCall]:
    """Yield every call, with the advantage of its trajectory over the others."""
    rewards = [reward for _, reward in group]
    mean = fmean(rewards)
    for (trajectory, reward), advantage in zip(group, leave_one_out(rewards), strict=True):
        for name, call in _calls(trajectory, components):
            yield DrawnCall(name, call, advantage, reward < mean)


def _kept(
    group: Sequence[tuple[Trajectory, float]], components: Sequence[str], least_reward: float
) -> Iterator[DrawnCall]:
    """Yield the calls of the best trajectories; each trajectory counts the same, however long."""
    best = max(reward for _, reward in group)
    for trajectory, reward in group:
        if reward >= least_reward and best - reward < SAME_REWARD:
            calls = _calls(trajectory, components)
            for name, call in calls:
                yield DrawnCall(name, call, 1.0 / len(calls))


def _pairs(
    group: Sequence[tuple[Trajectory, float]], components: Sequence[str]
) -> Iterator[DrawnPair]:
    """Yield for each prompt that was answered in other words the best and the worst that followed.

    The worst of those in other words than the best; the first ones where several are equal.
    """
    by_prompt: dict[str, list[tuple[float, DrawnCall]]] = {}
    for trajectory, reward in group:
        for name, call in _calls(trajectory, components):
            prompt = f"{call.input_ids}{call.subgraphs}"
            by_prompt.setdefault(prompt, []).append((reward, DrawnCall(name, call)))
    for answers in by_prompt.values():
        best, better = max(answers, key=lambda answer: answer[0])
        others = [a for a in answers if a[1].call.token_ids != better.call.token_ids]
        worst, worse = min(others, key=lambda answer: answer[0], default=(best, better))
        if best - worst > SAME_REWARD:
            yield DrawnPair(better, replace(worse, advantage=-1.0))
