"""An evaluation's folder: every answer is on disk at once, so that a run can go on later."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.runs import PROGRESS_FILE, RESULTS_FILE, TRACES_FILE
from models.append_log import AppendLog
from models.atomic import atomic_write

SETTINGS_FILE = "settings.json"
SHARD_FILE = "shard.json"
REMEDY = "Remove the line; its question is then asked again"


class EvaluationLogError(ValueError):
    """An evaluation's folder does not fit what was asked for; the message says what to do."""


class EvaluationLog:
    """Rows of answered questions by id, in a folder that ends with traces and results."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], resume: bool) -> None:
        """Begin an evaluation, or with `resume` take what an earlier one answered.

        Questions that ended in an error are not taken; they are asked again. `settings` decide
        answers: those of the earlier run must be the same.

        Raises:
            EvaluationLogError: an interrupted run that `resume` does not name, none where it
                does, or one with other settings.
            RecordError: a line that is no JSON.
        """
        self.folder = folder
        self._progress = AppendLog(folder / PROGRESS_FILE, REMEDY)
        self.rows: dict[str, dict[str, Any]] = {}
        interrupted = self._progress.path.is_file()
        if resume:
            self._check_settings(settings)
            earlier = AppendLog(folder / TRACES_FILE, REMEDY)
            found = [row for log in (earlier, self._progress) for _, row in log.read()]
            self.rows = {row["id"]: row for row in found if row["error"] is None}
        elif interrupted:
            raise EvaluationLogError(
                f"{folder} holds an interrupted evaluation: go on with --resume, or name another "
                "folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / SETTINGS_FILE) as handle:
            json.dump(settings, handle, indent=2)

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        path = self.folder / SETTINGS_FILE
        if not path.is_file():
            raise EvaluationLogError(f"{self.folder} holds no evaluation to go on with")
        stored = json.loads(path.read_text(encoding="utf-8"))
        for name, value in settings.items():
            if stored.get(name) != value:
                raise EvaluationLogError(
                    f"{self.folder} was begun with {name} = {stored.get(name)!r}, and "
                    f"{value!r} is given now. Give the first, or name another folder"
                )

    def append(self, row: dict[str, Any]) -> None:
        """Put an answered question on the disk."""
        self._progress.append([row])
        self.rows[row["id"]] = row

    def finish(
        self, rows: Sequence[Mapping[str, Any]], results: Mapping[str, Any], part: bool = False
    ) -> None:
        """Write traces first, then results, each whole or not at all.

        part: `results` are a shard's card; nothing here is then called the results.
        """
        with atomic_write(self.folder / TRACES_FILE) as handle:
            handle.writelines(map(trace_line, rows))
        name, other = (SHARD_FILE, RESULTS_FILE) if part else (RESULTS_FILE, SHARD_FILE)
        # What an earlier evaluation left here does not belong to these traces.
        (self.folder / other).unlink(missing_ok=True)
        with atomic_write(self.folder / name) as handle:
            json.dump(results, handle, indent=2)
        self._progress.path.unlink(missing_ok=True)


def trace_line(row: Mapping[str, Any]) -> str:
    """A scored trace as its line in `traces.jsonl`."""
    return json.dumps(row, ensure_ascii=False) + "\n"
