"""The commands of an improvement's rounds, without any work: they write what each would."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models.formats.records import QuestionRecord, read_records, write_records
from models.formats.trajectories import Trajectory
from training.recipe.settings import load_config
from training.rounds.settings import ImproveSettings
from training.rounds.steps import RoundError
from training.run.run_folder import note_nothing_to_learn

ROOT = Path(__file__).resolve().parents[2]


ROLLOUT, EVALUATE, TRAIN, TRAIN_BESIDE = (
    str(ROOT / each)
    for each in (
        *("inference/rollout.py", "inference/evaluate.py"),
        *("training/train_ras.py", "training/train_t2t.py"),
    )
)


RECIPE = ROOT / "configs/improve/ras_smollm2.yaml"


class Commands:
    """Stands for the commands: writes what each would, or fails once where it is told to."""

    def __init__(
        self,
        figures: Sequence[float],
        fails_at: int = -1,
        mixed_groups: Sequence[int] = (),
        errors: Sequence[int] = (),
        nothing: Sequence[str] = (),
        **drawn: Any,
    ) -> None:
        """mixed_groups: of each rollout; where there are no more of them, 1. errors: of each
        rollout and evaluation; then 0. nothing: trainings that have nothing to learn from, by the
        end of their folders. drawn: of every rollout's results.
        """
        self.figures = list(figures)
        self.fails_at = fails_at
        self.mixed_groups = list(mixed_groups)
        self.errors = list(errors)
        self.nothing = tuple(nothing)
        self.drawn = drawn
        self.asked: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> None:
        words = list(command)
        self.asked.append(words)
        out = Path(after(words, "--out") or value(words, "output_dir"))
        out.mkdir(exist_ok=True)
        trains = TRAIN in words or TRAIN_BESIDE in words
        if not trains:
            (out / "settings.json").write_text("{}")
        if len(self.asked) - 1 == self.fails_at:
            raise RoundError("killed")
        if trains and str(out).endswith(self.nothing or "-"):
            note_nothing_to_learn(out, "nothing")
            raise RoundError("code 1")
        if trains:
            entry = {"step": 1, "loss": 0.1, "entropy": 2.0, "kl": 0.01, "rewarded_gain": 0.2}
            (out / "history.jsonl").write_text(json.dumps(entry) + "\n")
            (out / "metrics.json").write_text("{}")
            return
        errors = self.errors.pop(0) if self.errors else 0
        results: dict[str, Any] = {"errors": errors}
        if EVALUATE in words:
            results |= {"n": 300, "f1": 0.0 if errors > 3 else self.figures.pop(0)}
        else:
            asked = list(read_records(after(words, "--dataset"), QuestionRecord))
            write_records(out / "trajectories.jsonl", [drawn(record.id) for record in asked])
            mixed = self.mixed_groups.pop(0) if self.mixed_groups else 1
            results |= {"reward": 0.5, "reward_parts": {"searches": 2.0}, "f1": 0.3}
            results |= {"trajectories": len(asked), "mixed_groups": mixed, **self.drawn}
            results = {"sampled": {"ras": 1, "t2t": 1}, "without": {"reward": 0}, **results}
        (out / "results.json").write_text(json.dumps(results))


def drawn(question: str) -> Trajectory:
    """A trajectory of a question that nothing was asked for."""
    return Trajectory(question, "", 0, question, 0, 1.0, [], [], "")


def after(words: list[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words else ""


def value(words: list[str], key: str) -> str:
    return next(word.partition("=")[2] for word in words if word.startswith(f"{key}="))


def settings_in(folder: Path, *more: str) -> ImproveSettings:
    """Settings of an improvement over five questions, three a round, which this writes."""
    records = [QuestionRecord(f"q{n}", "Who?", "x") for n in range(5)]
    write_records(folder / "questions.jsonl", records)
    given = (
        f"output_dir={folder / 'out'}", f"rollout.questions={folder / 'questions.jsonl'}",
        f"measure.questions={folder / 'dev.jsonl'}", "rollout.questions_a_round=3",
        "start_from=START", *more,
    )  # fmt: skip
    return load_config(ImproveSettings, RECIPE, given)
