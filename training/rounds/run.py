"""Rounds of an improvement: roll out, train, measure, keep the better component or go back.

Every step is a command of its own with a folder of its own, and is done once its outcome is there:
what is killed anywhere goes on from there.
"""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar

from common.errors import UserError
from common.files import AppendLog, atomic_write
from evaluation.runs import RESULTS_FILE, is_begun
from models.files.checkpoint import METRICS_FILE
from models.formats.records import QuestionRecord, read_records, write_records
from models.formats.trajectories import TRAJECTORIES_FILE, Trajectory
from training.recipe.settings import ConfigError
from training.rounds.learners import Learner, learners_of
from training.rounds.settings import ImproveSettings
from training.run.run_folder import read_history

logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
ROUNDS_FILE, SETTINGS_FILE, BEST = "rounds.jsonl", "settings.json", "best"
# In a round's folder.
DRAWN_FILE = f"rollout/{TRAJECTORIES_FILE}"
MEASURE = "measure"
MEASURE_CACHE = "measured_triples.sqlite"
# Of a training's log, at its end.
LEARNT = ("entropy", "kl", "clip_share", "rewarded_gain")
Command = Sequence[str]
T = TypeVar("T")
Execute = Callable[[Command], None]


class RoundError(UserError, RuntimeError):
    """A round's command that failed, or an improvement that cannot go on; says how to."""


@dataclass(frozen=True)
class Round:
    """A finished round; number 0 is the measurement of the start.

    component: its folder. kept: whether it is the best so far. figure: that decided. rollout,
    learning, measured: figures of each step. beside, learning_beside: of a second component.
    """

    number: int
    component: str
    kept: bool
    figure: float
    rollout: dict[str, Any]
    learning: dict[str, Any]
    measured: dict[str, Any]
    beside: str = ""
    learning_beside: dict[str, Any] = field(default_factory=dict)

    @property
    def folders(self) -> list[str]:
        """Return the components' folders."""
        return [self.component, self.beside] if self.beside else [self.component]


def rounds_log(folder: Path) -> AppendLog:
    """Return the log of an improvement's finished rounds."""
    return AppendLog(folder / ROUNDS_FILE, "Remove the line; its round is then noted again")


def read_rounds(folder: Path) -> list[Round]:
    """Return an improvement's finished rounds. Raises RecordError for a line that is no JSON."""
    return [Round(**record) for _, record in rounds_log(folder).read()]


def round_folder(folder: Path, number: int) -> Path:
    """Return the folder of an improvement's round."""
    return folder / f"round-{number:02d}"


def execute(command: Command) -> None:
    """Run a command of the project to its end. Raises RoundError, which shows it."""
    logger.info("%s", shlex.join(command))
    status = subprocess.run(list(command), check=False).returncode
    if status:
        raise RoundError(
            f"a command ended with code {status}: {shlex.join(command)}. See what it said above; "
            "what is done is kept, and the same improvement goes on from there"
        )


class Improvement:
    """An improvement's folder, and what is still to be done in it."""

    def __init__(self, settings: ImproveSettings, run: Execute = execute) -> None:
        """Begin, or go on with what the folder holds.

        Raises:
            ConfigError: what is not said of a component, or a folder of other settings.
        """
        self.settings = settings
        self.run = run
        self.folder = Path(settings.output_dir)
        self.learners = learners_of(settings)
        self._claim()
        self._log = rounds_log(self.folder)
        self.rounds = read_rounds(self.folder)

    def _claim(self) -> None:
        """Note the settings, but for how many rounds there are; refuse a folder of others."""
        path = self.folder / SETTINGS_FILE
        now = {name: value for name, value in asdict(self.settings).items() if name != "rounds"}
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as handle:
                json.dump(now, handle, indent=2)
            return
        # A key that there was not yet when it was begun was what it is by default.
        before = asdict(ImproveSettings()) | json.loads(path.read_text(encoding="utf-8"))
        differing = [key for key in now if now[key] != before[key]]
        if differing:
            raise ConfigError(
                f"{self.folder} holds rounds with another {', '.join(differing)}. Give what it was "
                "begun with, or name another output_dir"
            )

    @property
    def best(self) -> Round:
        """Return the newest round whose component was kept."""
        return next(done for done in reversed(self.rounds) if done.kept)

    def go_on(self) -> None:
        """Do what is missing, round by round. Raises RoundError."""
        if not self.rounds:
            start = [learner.start_from for learner in self.learners]
            measured = self._measured(self._round(0), start)
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
        drawn = self._rolled_out(folder, start, number)
        if drawn["mixed_groups"] == 0:
            self._pass_over(number, drawn)
            return
        trajectories = self._learnt_from(folder, number)
        learnt = [
            self._trained(folder, learner, own, trajectories)
            for learner, own in zip(self.learners, start, strict=True)
        ]
        components = [str(folder / learner.folder) for learner in self.learners]
        measured = self._measured(folder, components)
        figure = self._figure(measured)
        kept = figure > self.best.figure + self.settings.measure.least_gain
        self._finish(
            Round(
                number, components[0], kept, figure, drawn, learnt[0], measured,
                beside=_second(components, ""), learning_beside=_second(learnt, {}),
            )
        )  # fmt: skip

    def _pass_over(self, number: int, drawn: dict[str, Any]) -> None:
        """Note a round whose trajectories tell nothing apart; the next one draws others."""
        logger.warning(
            "round %d: the trajectories of every question are worth the same, so that there is "
            "nothing to learn from; the next round draws others",
            number,
        )
        same = replace(self.best, number=number, kept=False, rollout=drawn)
        self._finish(replace(same, learning={}, learning_beside={}))

    def _round(self, number: int) -> Path:
        folder = round_folder(self.folder, number)
        folder.mkdir(exist_ok=True)
        return folder

    def _rolled_out(self, folder: Path, start: Sequence[str], number: int) -> dict[str, Any]:
        given, out = self.settings.rollout, folder / "rollout"
        questions = folder / "questions.jsonl"
        if not questions.is_file():
            write_records(questions, self._questions(number))
        self._once(
            out,
            [
                str(ROOT / "inference/rollout.py"), "--dataset", str(questions),
                *_corpus(given.corpus), "--out", str(out), "--group", str(given.group),
                "--temperature", str(given.temperature), "--seed", str(self.settings.seed + number),
                "--sample", *(learner.name for learner in self.learners),
                *_weights(given.weights), *self.settings.loop, *given.options, *self._named(start),
            ],
        )  # fmt: skip
        results = _results(out)
        names = ("trajectories", "f1", "best_f1", "reward", "reward_parts", "mixed_groups")
        return {name: results.get(name) for name in names}

    def _questions(self, number: int) -> list[QuestionRecord]:
        """Return a round's questions: those after the round's before, from the start at the end."""
        given = self.settings.rollout
        records = list(read_records(given.questions, QuestionRecord))
        count = min(given.questions_a_round, len(records))
        return list(islice(cycle(records), (number - 1) * count, number * count))

    def _named(self, components: Sequence[str]) -> list[str]:
        """Return the options that name components, which come last and win over the loop's."""
        pairs = zip(self.learners, components, strict=True)
        return [word for learner, folder in pairs for word in (learner.option, folder)]

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

    def _trained(
        self, folder: Path, learner: Learner, start: str, trajectories: Path
    ) -> dict[str, Any]:
        out = folder / learner.folder
        if not (out / METRICS_FILE).is_file():
            launcher = self.settings.learning.launcher or [sys.executable]
            self.run(
                [
                    *launcher, str(ROOT / "training" / learner.script), "--config", learner.recipe,
                    f"output_dir={out}", f"data.train={trajectories}",
                    f"model.start_from={start}", "train.resume=auto", *learner.values,
                ]
            )  # fmt: skip
        last: dict[str, Any] = {}
        for entry in read_history(out):
            last |= {name: entry[name] for name in (*LEARNT, "loss") if name in entry}
        return last

    def _measured(self, folder: Path, components: Sequence[str]) -> dict[str, Any]:
        given, out = self.settings.measure, folder / MEASURE
        self._once(
            out,
            [
                str(ROOT / "inference/evaluate.py"), "--dataset", given.questions,
                *_corpus(given.corpus), "--out", str(out),
                # What a round before has read is not billed again, and rounds would not compare.
                "--cache", str(folder / MEASURE_CACHE), *self.settings.loop, *given.options,
                *self._named(components),
            ],
        )  # fmt: skip
        return _results(out)

    def _once(self, out: Path, command: list[str]) -> None:
        """Run a command whose folder has no results yet; one that was begun goes on."""
        if (out / RESULTS_FILE).is_file():
            return
        again = ["--resume"] if is_begun(out) else []
        self.run([sys.executable, *command, *again])

    def _figure(self, measured: Mapping[str, Any]) -> float:
        name = self.settings.measure.figure
        if not isinstance(measured.get(name), int | float):
            raise ConfigError(f"measure.figure={name}: an evaluation has no such figure")
        return float(measured[name])

    def _finish(self, done: Round) -> None:
        self._log.append([asdict(done)])
        self.rounds.append(done)
        if done.kept:
            for learner, component in zip(self.learners, done.folders, strict=True):
                name = BEST if learner is self.learners[0] else f"{BEST}_{learner.name}"
                self._link(name, Path(component))
        logger.info(
            "round %d: %s %.4f, %s", done.number, self.settings.measure.figure, done.figure,
            "kept" if done.kept else f"back to round {self.best.number}",
        )  # fmt: skip

    def _link(self, name: str, component: Path) -> None:
        """Make `name` a link to a component, in one step."""
        new = self.folder / f".{name}"
        new.unlink(missing_ok=True)
        new.symlink_to(component.resolve())
        new.replace(self.folder / name)


def _second(values: Sequence[T], otherwise: T) -> T:
    """Return what belongs to the second component, or `otherwise` where there is none."""
    return values[1] if len(values) > 1 else otherwise


def _results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / RESULTS_FILE).read_text(encoding="utf-8"))
    return found


def _corpus(path: str) -> list[str]:
    return ["--corpus", path] if path else []


def _weights(weights: Sequence[str]) -> list[str]:
    return ["--weights", *weights] if weights else []
