"""Rounds of an improvement: roll out, train, measure, keep the better component or go back.

What is killed anywhere goes on from there: a step from what its folder holds, a round from its
steps, an improvement from its finished rounds.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from common.files import atomic_write
from models.formats.records import read_records, write_records
from models.formats.trajectories import TRAJECTORIES_FILE, Trajectory
from training.recipe.settings import ConfigError
from training.rounds.learners import learners_of
from training.rounds.record import (
    BEST,
    DRAWN_FILE,
    SETTINGS_FILE,
    Round,
    read_rounds,
    round_folder,
    rounds_log,
)
from training.rounds.settings import ImproveSettings
from training.rounds.steps import Execute, Steps, execute

logger = logging.getLogger(__name__)
# Of an evaluation's results, that a component is kept by.
FIGURES = ("f1", "em")
T = TypeVar("T")


class Improvement:
    """An improvement's folder, and what is still to be done in it."""

    def __init__(self, settings: ImproveSettings, run: Execute = execute) -> None:
        """Begin, or go on with what the folder holds.

        Raises:
            ConfigError: what is not said of a component, or a folder of other settings.
        """
        if settings.measure.figure not in FIGURES:
            raise ConfigError(
                f"measure.figure={settings.measure.figure}: write {' or '.join(FIGURES)}"
            )
        self.settings = settings
        self.folder = Path(settings.output_dir)
        self.learners = learners_of(settings)
        self.steps = Steps(settings, self.learners, run)
        self._log = rounds_log(self.folder)
        self.rounds = read_rounds(self.folder)
        self._claim()

    def _claim(self) -> None:
        """Note the settings, but for how many rounds there are; refuse a folder of others.

        How a component is trained may change as long as no round has learned so.
        """
        path = self.folder / SETTINGS_FILE
        now = {name: value for name, value in asdict(self.settings).items() if name != "rounds"}
        if path.is_file():
            stored = json.loads(path.read_text(encoding="utf-8"))
            before = _filled(stored, asdict(ImproveSettings()))
            has_learnt = any(done.learning for done in self.rounds)
            differing = _differing(now, before, has_learnt)
            if differing:
                raise ConfigError(
                    f"{self.folder} holds rounds with another {', '.join(differing)}. Give what it "
                    "was begun with, or name another output_dir"
                )
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as handle:
            json.dump(now, handle, indent=2)

    @property
    def best(self) -> Round:
        """Return the newest round whose component was kept."""
        return next(done for done in reversed(self.rounds) if done.kept)

    def go_on(self) -> None:
        """Do what is missing, round by round. Raises RoundError."""
        if self.rounds:
            # A kill may have come between a round's line and its links.
            self._link_best()
        else:
            start = [learner.start_from for learner in self.learners]
            measured = self.steps.measure(self._round(0), start)
            self._finish(
                Round(
                    0, start[0], True, self._figure(measured), {}, {}, measured,
                    beside=_second(start, ""),
                )
            )  # fmt: skip
        for number in range(len(self.rounds), self.settings.rounds + 1):
            self._do(number)

    def _do(self, number: int) -> None:
        folder, start = self._round(number), self.best.folders
        drawn = self.steps.roll_out(folder, start, number)
        if drawn["mixed_groups"] == 0:
            self._pass_over(number, drawn, "the trajectories of every question are worth the same")
            return
        trajectories = self._learnt_from(folder, number)
        learnt = [
            self.steps.train(folder, learner, own, trajectories)
            for learner, own in zip(self.learners, start, strict=True)
        ]
        if all(figures is None for figures in learnt):
            self._pass_over(number, drawn, "the objective takes nothing of its trajectories")
            return
        # What had nothing to learn from stays as it was beside what had.
        components = [
            own if figures is None else str(folder / learner.folder)
            for learner, own, figures in zip(self.learners, start, learnt, strict=True)
        ]
        told = [figures or {} for figures in learnt]
        measured = self.steps.measure(folder, components)
        figure, least = self._figure(measured), self._figure(self.best.measured)
        kept = figure > least + self.settings.measure.least_gain
        self._finish(
            Round(
                number, components[0], kept, figure, drawn, told[0], measured,
                beside=_second(components, ""), learning_beside=_second(told, {}),
            )
        )  # fmt: skip

    def _pass_over(self, number: int, drawn: dict[str, Any], reason: str) -> None:
        """Note a round that has nothing to learn from; the next one draws others."""
        logger.warning("round %d: %s; the next round draws others", number, reason)
        component, beside = self.best.component, self.best.beside
        self._finish(Round(number, component, False, None, drawn, {}, {}, beside))

    def _round(self, number: int) -> Path:
        folder = round_folder(self.folder, number)
        folder.mkdir(exist_ok=True)
        return folder

    def _learnt_from(self, folder: Path, number: int) -> Path:
        """Return the trajectories of the best component: of this round and those it did not keep.

        Where a question came again, its trajectories are one group.
        """
        rounds = [self._round(earlier) for earlier in range(self.best.number + 1, number)]
        if not rounds:
            return folder / DRAWN_FILE
        together = folder / TRAJECTORIES_FILE
        if not together.is_file():
            group = self.settings.rollout.group
            write_records(
                together,
                (
                    replace(trajectory, number=trajectory.number + place * group)
                    for place, drawn in enumerate([*rounds, folder])
                    for trajectory in read_records(drawn / DRAWN_FILE, Trajectory)
                ),
            )
        return together

    def _figure(self, measured: Mapping[str, Any]) -> float:
        name = self.settings.measure.figure
        if not isinstance(measured.get(name), int | float):
            raise ConfigError(f"measure.figure={name}: an evaluation has no such figure")
        return float(measured[name])

    def _finish(self, done: Round) -> None:
        self._log.append([asdict(done)])
        self.rounds.append(done)
        if done.kept:
            self._link_best()
        outcome = "kept" if done.kept else f"back to round {self.best.number}"
        told = "" if done.figure is None else f"{self.settings.measure.figure} {done.figure:.4f}, "
        logger.info("round %d: %s%s", done.number, told, outcome)

    def _link_best(self) -> None:
        """Make `best`, and that of a second component, links to the best round's."""
        for learner, component in zip(self.learners, self.best.folders, strict=True):
            name = BEST if learner is self.learners[0] else f"{BEST}_{learner.name}"
            link, new = self.folder / name, self.folder / f".{name}"
            new.unlink(missing_ok=True)
            new.symlink_to(Path(component).resolve())
            # In one step: there is always a best.
            new.replace(link)


def _differing(now: dict[str, Any], before: dict[str, Any], has_learnt: bool) -> list[str]:
    """Return the settings that may not differ from those before, and do."""
    if not now["beside"]["component"] and not before["beside"]["component"]:
        # Nothing learns beside, whatever else is said of it.
        before = {**before, "beside": now["beside"]}
    free = ("launcher",) if has_learnt else ("launcher", "recipe", "values")
    for part in ("learning", "beside"):
        taken = {name: now[part][name] for name in free if name in now[part]}
        before = {**before, part: {**before[part], **taken}}
    return [key for key in now if now[key] != before[key]]


def _filled(stored: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored settings; a key that there was not yet was what it is by default."""
    filled = {**default, **stored}
    for name, value in default.items():
        if isinstance(value, Mapping) and isinstance(stored.get(name), Mapping):
            filled[name] = _filled(stored[name], value)
    return filled


def _second(values: Sequence[T], otherwise: T) -> T:
    """Return what belongs to the second component, or `otherwise` where there is none."""
    return values[1] if len(values) > 1 else otherwise
