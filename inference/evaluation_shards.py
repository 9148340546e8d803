"""A part of an evaluation, for an array of jobs, and the proof that parts make up a whole one.

A shard's folder holds `shard.json` in place of `results.json`, so that nothing takes it for the
whole: which shard of how many, the places of its questions in the data set, what all questions
were, and the hash of its traces.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.runs import TRACES_FILE
from evaluation.shards import Shard, ShardError, check_numbers
from inference.evaluation_log import SETTINGS_FILE, SHARD_FILE, trace_line
from models.formats.records import QuestionRecord

FORMAT = 1
AGAIN = "Evaluate this shard again"


def shard_card(
    shard: Shard,
    records: Sequence[QuestionRecord],
    rows: Sequence[Mapping[str, Any]],
    seconds: float,
) -> dict[str, Any]:
    """What `shard.json` says. records: of all shards; rows: scored traces of this one."""
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
        """Which shard of how many."""
        return Shard(self.card["shard"], self.card["of"])

    def __str__(self) -> str:
        return f"{self.folder / SHARD_FILE}: shard {self.shard}"


def open_evaluation(folders: Sequence[Path]) -> list[EvaluationShard]:
    """The shards in the order of their numbers, proven to be the parts of one evaluation.

    Raises:
        ShardError: a folder that is no finished shard, a number that is missing or there twice,
            other settings or questions than the first's, a question that is missing or there
            twice.
    """
    shards = [_open(folder) for folder in folders]
    check_numbers(shards)
    shards.sort(key=lambda stored: stored.shard.number)
    for other in shards[1:]:
        _check_same(shards[0], other)
    places = sorted(place for stored in shards for place in stored.card["places"])
    if places != list(range(shards[0].card["questions"]["all"])):
        problem = "with the others it does not hold every question once"
        raise ShardError(shards[0], problem, "A card was altered: evaluate the shards again")
    return shards


def merged_rows(shards: Sequence[EvaluationShard]) -> list[dict[str, Any]]:
    """The scored traces of all shards in the order of the questions.

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
    for name in sorted({*first.settings, *other.settings}):
        there, here = (stored.settings.get(name) for stored in (first, other))
        if there != here:
            problem = f"{name} is {here!r}, in {first} {there!r}"
            raise ShardError(other, problem, "Evaluate all shards with the same options")
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
