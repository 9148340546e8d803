"""An evaluation's folder: every answer is on disk at once, and parts of a run are put together."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import AppendLog, atomic_write
from common.shards import Shard, ShardError, check_numbers
from evaluation.runs import PROGRESS_FILE, RESULTS_FILE, SETTINGS_FILE, TRACES_FILE
from models.formats.records import QuestionRecord

SHARD_FILE = "shard.json"
REMEDY = "Remove the line; its question is then asked again"
FORMAT = 1
AGAIN = "Evaluate this shard again"
# What a finished evaluation left, under this while another one runs in its folder.
EARLIER = "earlier_"
OUTCOMES = (TRACES_FILE, RESULTS_FILE, SHARD_FILE)
# Settings that runs did not record before.
DATA = ("dataset_sha256", "corpus_sha256")


class EvaluationLogError(UserError, ValueError):
    """An evaluation's folder does not fit what was asked for; the message says what to do."""


class EvaluationLog:
    """Rows of answered questions by id, in a folder that ends with traces and results."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], resume: bool) -> None:
        """Begin an evaluation, or with `resume` take what an earlier one answered.

        Questions that ended in an error are not taken; they are asked again. `settings` decide
        answers: those of the earlier run must be the same. Where a new one begins in the folder of
        a finished one, that one's files are `earlier_…` until the new one has its own, so that
        going on later takes no answer of other settings.

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
            check_settings(folder, settings)
            earlier = AppendLog(folder / TRACES_FILE, REMEDY)
            found = [row for log in (earlier, self._progress) for _, row in log.read()]
            self.rows = {row["id"]: row for row in found if row["error"] is None}
        elif interrupted:
            raise EvaluationLogError(
                f"{folder} holds an interrupted evaluation: go on with --resume, or name another "
                "folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        if not resume:
            for name in OUTCOMES:
                if (folder / name).exists():
                    (folder / name).replace(folder / f"{EARLIER}{name}")
        with atomic_write(folder / SETTINGS_FILE) as handle:
            json.dump(settings, handle, indent=2)

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
        for each in OUTCOMES:
            (self.folder / f"{EARLIER}{each}").unlink(missing_ok=True)


def check_settings(folder: Path, settings: Mapping[str, Any], what: str = "evaluation") -> None:
    """Raise EvaluationLogError unless a folder was begun with the same settings.

    what: the folder should hold.
    """
    path = folder / SETTINGS_FILE
    if not path.is_file():
        raise EvaluationLogError(f"{folder} holds no {what} to go on with")
    stored = comparable(json.loads(path.read_text(encoding="utf-8")))
    for name, value in comparable(settings).items():
        if not is_same(name, stored.get(name), value):
            raise EvaluationLogError(
                f"{folder} was begun with {name} = {stored.get(name)!r}, and "
                f"{value!r} is given now. Give the first, or name another folder"
            )


def is_same(name: str, value: object, other: object) -> bool:
    """Return whether two runs agree in a setting; one that did not record its data agrees."""
    return value == other or (name in DATA and None in (value, other))


def comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as runs recorded them before an option that is not given was resolved."""
    by_default = settings.get("ras") is not None
    unresolved = {"plan_ahead": None} if settings.get("plan_ahead") == by_default else {}
    return {**settings, **unresolved}


def trace_line(row: Mapping[str, Any]) -> str:
    """Return a scored trace as its line in `traces.jsonl`."""
    return json.dumps(row, ensure_ascii=False) + "\n"


def shard_card(
    shard: Shard,
    records: Sequence[QuestionRecord],
    rows: Sequence[Mapping[str, Any]],
    seconds: float,
) -> dict[str, Any]:
    """Return `shard.json`. records: of all shards; rows: scored traces of this one."""
    questions, traces = hashlib.sha256(), hashlib.sha256()
    for record in records:
        questions.update(json.dumps(record.to_json()).encode("ascii") + b"\n")
    for row in rows:
        traces.update(trace_line(row).encode("utf-8"))
    return {
        "format": FORMAT,
        "shard": shard.number,
        "of": shard.count,
        "questions": {"all": len(records), "sha256": questions.hexdigest()},
        "places": [place for place, record in enumerate(records) if shard.owns(record.id)],
        "traces_sha256": traces.hexdigest(),
        "seconds": seconds,
        "errors": sum(row["error"] is not None for row in rows),
    }


@dataclass(frozen=True)
class EvaluationShard:
    """A shard's folder with its card and settings."""

    folder: Path
    card: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def shard(self) -> Shard:
        """Return which shard of how many."""
        return Shard(self.card["shard"], self.card["of"])

    def __str__(self) -> str:
        return f"{self.folder / SHARD_FILE}: shard {self.shard}"


def open_evaluation(folders: Sequence[Path]) -> list[EvaluationShard]:
    """Return the shards in the order of their numbers, proven to be the parts of one evaluation.

    Raises:
        ShardError: a folder that is no finished shard, a number that is missing or there twice,
            other settings or questions than the first's, a question that is missing or there
            twice.
    """
    shards = [_open(folder) for folder in folders]
    check_numbers(shards)
    shards.sort(key=lambda stored: stored.shard.number)
    # Each with each: a first one that did not record its data agrees with any.
    for first, other in combinations(shards, 2):
        _check_same(first, other)
    places = sorted(place for stored in shards for place in stored.card["places"])
    if places != list(range(shards[0].card["questions"]["all"])):
        problem = "with the others it does not hold every question once"
        raise ShardError(shards[0], problem, "A card was altered: evaluate the shards again")
    return shards


def merged_rows(shards: Sequence[EvaluationShard]) -> list[dict[str, Any]]:
    """Return the scored traces of all shards in the order of the questions.

    Raises:
        ShardError: traces that are not what was written, or that belong to another shard.
    """
    rows: dict[int, dict[str, Any]] = {}
    for stored in shards:
        rows.update(zip(stored.card["places"], _rows(stored), strict=True))
    return [rows[place] for place in sorted(rows)]


def _open(folder: Path) -> EvaluationShard:
    card = _read(folder / SHARD_FILE)
    if card.get("format") != FORMAT:
        problem = f"a shard in format {card.get('format')}, not {FORMAT}"
        remedy = "Make and merge all shards with one version of this code"
        raise ShardError(folder / SHARD_FILE, problem, remedy)
    settings = _read(folder / SETTINGS_FILE)
    return EvaluationShard(folder, card, {**settings, "shard": None})


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        remedy = "Name the folder of a finished evaluate.py --shard; an interrupted one goes on"
        raise ShardError(path, "no such file", f"{remedy} with --resume") from None
    except ValueError as error:
        raise ShardError(path, f"not JSON ({error})", AGAIN) from None
    if not isinstance(content, dict):
        raise ShardError(path, "not a JSON object", AGAIN)
    return content


def _check_same(first: EvaluationShard, other: EvaluationShard) -> None:
    both = [comparable(stored.settings) for stored in (first, other)]
    for name in sorted({*both[0], *both[1]}):
        there, here = (settings.get(name) for settings in both)
        if not is_same(name, there, here):
            problem = f"{name} is {here!r}, in {first} {there!r}"
            raise ShardError(other, problem, "Evaluate all shards with the same options and data")
    if first.card["questions"] != other.card["questions"]:
        counts = [stored.card["questions"]["all"] for stored in (other, first)]
        problem = f"dealt from other questions than {first} ({counts[0]} and {counts[1]})"
        raise ShardError(other, problem, "Evaluate all shards on one --dataset and --limit")


def _rows(stored: EvaluationShard) -> list[dict[str, Any]]:
    path = stored.folder / TRACES_FILE
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != stored.card["traces_sha256"]:
        raise ShardError(path, "not the traces that were written", f"It was altered. {AGAIN}")
    rows: list[dict[str, Any]] = [json.loads(line) for line in content.splitlines()]
    places = stored.card["places"]
    if len(rows) != len(places) or not all(stored.shard.owns(row["id"]) for row in rows):
        raise ShardError(path, f"not the {len(places)} questions of {stored}", AGAIN)
    return rows
