"""An improvement's folder: its finished rounds, one line each, and where a round's files stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.files import AppendLog
from models.formats.trajectories import TRAJECTORIES_FILE

ROUNDS_FILE, SETTINGS_FILE, BEST = "rounds.jsonl", "settings.json", "best"
# In a round's folder.
ROLLOUT, MEASURE = "rollout", "measure"
DRAWN_FILE = f"{ROLLOUT}/{TRAJECTORIES_FILE}"


@dataclass(frozen=True)
class Round:
    """A finished round; number 0 is the measurement of the start.

    component: its folder. kept: whether it is the best so far. figure: that decided; None of a
    round that was passed over, which measured nothing. rollout, learning, measured: figures of each
    step. beside, learning_beside: of a second component.
    """

    number: int
    component: str
    kept: bool
    figure: float | None
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
