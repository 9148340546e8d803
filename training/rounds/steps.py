"""The steps of a round, each a command with a folder of its own: roll out, train, measure.

A step is done once its outcome is there, so that one that was killed goes on.
"""

from __future__ import annotations

import logging
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from common.errors import UserError
from evaluation.runs import is_begun, stored_results
from models.files.checkpoint import METRICS_FILE
from models.formats.records import QuestionRecord, read_records, write_records
from training.rounds.learners import Learner
from training.rounds.record import MEASURE, ROLLOUT
from training.rounds.settings import ImproveSettings
from training.run.run_folder import read_history, read_nothing_to_learn

logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
MEASURE_CACHE = "measured_triples.sqlite"
# Of a training's log, at its end.
LEARNT = ("entropy", "kl", "clip_share", "rewarded_gain")
# Of a rollout's results.
DRAWN = ("trajectories", "f1", "best_f1", "reward", "reward_parts", "mixed_groups", "errors")
# A share of questions that may fail twice, such as those too long for the engine.
MOST_FAILED = 0.01
Command = Sequence[str]
Execute = Callable[[Command], None]


class RoundError(UserError, RuntimeError):
    """A round's command that failed, or an improvement that cannot go on; says how to."""


def execute(command: Command) -> None:
    """Run a command of the project to its end. Raises RoundError, which shows it.

    A SIGTERM is passed on to it, so that none is left at work; a training then saves.
    """
    logger.info("%s", shlex.join(command))
    running = subprocess.Popen(list(command))
    earlier = signal.signal(signal.SIGTERM, lambda number, _: running.send_signal(number))
    try:
        status = running.wait()
    finally:
        signal.signal(signal.SIGTERM, earlier)
    if status:
        raise RoundError(
            f"a command ended with code {status}: {shlex.join(command)}. See what it said above; "
            "what is done is kept, and the same improvement goes on from there"
        )


class Steps:
    """Runs the commands of an improvement's rounds."""

    def __init__(
        self, settings: ImproveSettings, learners: Sequence[Learner], run: Execute
    ) -> None:
        self.settings = settings
        self.learners = learners
        self.run = run

    def roll_out(self, folder: Path, start: Sequence[str], number: int) -> dict[str, Any]:
        """Draw a round's trajectories with these components; returns their figures.

        Raises RoundError where they tell nothing for a reason that more of them would not mend.
        """
        given, out = self.settings.rollout, folder / ROLLOUT
        questions = folder / "questions.jsonl"
        if not questions.is_file():
            write_records(questions, self._questions(number))
        # What is being learnt from stays as it is.
        is_learnt = any((folder / learner.folder).exists() for learner in self.learners)
        results = self._whole(
            out,
            [
                str(ROOT / "inference/rollout.py"), "--dataset", str(questions),
                *_corpus(given.corpus), "--out", str(out), "--group", str(given.group),
                "--temperature", str(given.temperature), "--seed", str(self.settings.seed + number),
                "--sample", *(learner.name for learner in self.learners),
                *_weights(given.weights), *self.settings.loop, *given.options, *self._named(start),
            ],
            tries=0 if is_learnt else 2,
        )  # fmt: skip
        self._check_drawn(out, results)
        return {name: results.get(name) for name in DRAWN}

    def _check_drawn(self, out: Path, results: Mapping[str, Any]) -> None:
        count, without = results["trajectories"], results["without"]
        # Rollouts that were made before it was counted are taken at their word.
        drawn = results.get("sampled", {learner.name: 1 for learner in self.learners})
        if silent := [each.name for each in self.learners if not drawn.get(each.name)]:
            raise RoundError(
                f"{out}: no call of {' and '.join(silent)} was drawn, which takes no part in the "
                "loop. Say in `loop` what asks it, such as --extraction,all for t2t, and name "
                "another output_dir"
            )
        if without["reward"] == count:
            untold = [name for name, lacking in without.items() if lacking == count]
            untold.remove("reward")
            raise RoundError(
                f"{out}: no trajectory has a reward, since nothing tells its {', '.join(untold)}. "
                "Leave what has a weight in rollout.weights and cannot be told out, or annotate "
                "the questions, and name another output_dir"
            )

    def _questions(self, number: int) -> list[QuestionRecord]:
        """Return a round's questions: those after the round's before, from the start at the end.

        Raises RoundError for none.
        """
        given = self.settings.rollout
        records = list(read_records(given.questions, QuestionRecord))
        count = min(given.questions_a_round, len(records))
        if count < 1:
            raise RoundError(
                f"{given.questions} holds {len(records)} questions, of which a round takes "
                f"{given.questions_a_round}: name questions in rollout.questions, and one or more "
                "a round"
            )
        return list(islice(cycle(records), (number - 1) * count, number * count))

    def train(
        self, folder: Path, learner: Learner, start: str, trajectories: Path
    ) -> dict[str, Any] | None:
        """Train a component on trajectories; returns figures of its end.

        None where the trajectories give this component's objective nothing to learn from.
        """
        out = folder / learner.folder
        if not (out / METRICS_FILE).is_file() and read_nothing_to_learn(out) is None:
            launcher = self.settings.learning.launcher or [sys.executable]
            try:
                self.run(
                    [
                        *launcher, str(ROOT / "training" / learner.script),
                        "--config", learner.recipe, f"output_dir={out}",
                        f"data.train={trajectories}", f"model.start_from={start}",
                        "train.resume=auto", *learner.values,
                    ]
                )  # fmt: skip
            except RoundError:
                if read_nothing_to_learn(out) is None:
                    raise
        if (reason := read_nothing_to_learn(out)) is not None:
            logger.warning("%s: %s", out, reason)
            return None
        last: dict[str, Any] = {}
        for entry in read_history(out):
            last |= {name: entry[name] for name in (*LEARNT, "loss") if name in entry}
        return last

    def measure(self, folder: Path, components: Sequence[str]) -> dict[str, Any]:
        """Evaluate these components on the development questions; returns the results."""
        given, out = self.settings.measure, folder / MEASURE
        return self._whole(
            out,
            [
                str(ROOT / "inference/evaluate.py"), "--dataset", given.questions,
                *_corpus(given.corpus), "--out", str(out),
                # What a round before has read is not billed again, and rounds would not compare.
                "--cache", str(folder / MEASURE_CACHE), *self.settings.loop, *given.options,
                *self._named(components),
            ],
        )  # fmt: skip

    def _named(self, components: Sequence[str]) -> list[str]:
        """Return the options that name components, which come last and win over the loop's."""
        pairs = zip(self.learners, components, strict=True)
        return [word for learner, folder in pairs for word in (learner.option, folder)]

    def _whole(self, out: Path, command: list[str], tries: int = 2) -> dict[str, Any]:
        """Return a command's results, once it has run; what failed is tried once more.

        tries: 0 takes the results that there are.

        Raises RoundError where more than `MOST_FAILED` still fails: figures of the rest would
        decide wrongly.
        """
        for _ in range(tries):
            if (results := stored_results(out)) is not None and not results["errors"]:
                return results
            again = ["--resume"] if is_begun(out) else []
            self.run([sys.executable, *command, *again])
        results = stored_results(out)
        assert results is not None
        failed = results["errors"]
        asked = results["n"] if "n" in results else results["trajectories"] + failed
        if failed > MOST_FAILED * asked:
            raise RoundError(
                f"{out}: {failed} of {asked} failed twice, and the rest would decide wrongly. See "
                "what was said above; the same improvement goes on from there"
            )
        if failed:
            logger.warning("%s: %d of %d failed twice", out, failed, asked)
        return results


def _corpus(path: str) -> list[str]:
    return ["--corpus", path] if path else []


def _weights(weights: Sequence[str]) -> list[str]:
    return ["--weights", *weights] if weights else []
