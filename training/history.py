"""`history.jsonl`: every logged figure of a run with its step, once, however often it resumed."""

import json
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from models.append_log import AppendLog
from models.atomic import atomic_write

HISTORY_FILE = "history.jsonl"
REMEDY = "Delete the line, or the file: a resumed run writes it anew from its checkpoint"


class History(TrainerCallback):
    """Keeps OUTPUT_DIR/history.jsonl, one JSON object with `step` a line, on the main process.

    A resumed run drops what was logged after the checkpoint it goes on from, and logs it again.
    """

    def __init__(self, output_dir: str | Path) -> None:
        self.log = AppendLog(Path(output_dir) / HISTORY_FILE, REMEDY)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin with what the checkpoint remembers; with nothing in a new run."""
        if state.is_world_process_zero:
            with atomic_write(self.log.path) as handle:
                handle.writelines(json.dumps(entry) + "\n" for entry in state.log_history)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Add what was logged last."""
        if state.is_world_process_zero:
            self.log.append(state.log_history[-1:])


def read_history(run: Path) -> list[dict[str, Any]]:
    """The logged figures of a run folder, in the order of their steps.

    Raises:
        RecordError: a line that is no JSON.
        FileNotFoundError: the folder has no history.
    """
    path = run / HISTORY_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file. Give the output_dir of a training run")
    return [entry for _, entry in AppendLog(path, REMEDY).read()]
