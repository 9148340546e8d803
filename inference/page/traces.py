"""Traces of an evaluation as the page takes them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from common.errors import UserError
from inference.retrieval.passages import Passage
from models.formats.fields import FieldReader, read_triple
from models.formats.records import Record, read_records

Outcome = Literal["right", "partly", "wrong"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
REMEDY = "Name the traces.jsonl of inference/evaluate.py"


class EmptyTracesError(UserError, ValueError):
    """A file without a trace; the message names it."""


@dataclass(frozen=True)
class TraceRecord(Record):
    """One question's scored trace. raw: the JSON object, which the page reads."""

    raw: dict[str, Any]

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one trace. Raises RecordError where it is not that of an evaluation."""
        reader = FieldReader(record, where)
        for name in ("question", "answer"):
            reader.text(name)
        for name in ("em", "f1"):
            _need_number(reader, name)
        for name in ("answers", "steps"):
            if name not in reader.record:
                raise reader.fail(name, "missing", REMEDY)
        reader.items("answers", str, "strings")
        reader.items("steps", _read_step, "{subquery, passages, triples, citations}")
        if _holds_infinity(record):
            raise reader.fail("(line)", "holds NaN or Infinity, which is no JSON", REMEDY)
        return cls(record)

    def to_json(self) -> dict[str, Any]:
        """The JSON object as it was read."""
        return self.raw

    @property
    def outcome(self) -> Outcome:
        """Right is an exact match, wrong an answer without a word of a gold one."""
        if self.raw["em"] == 1:
            return "right"
        return "partly" if self.raw["f1"] > 0 else "wrong"

    @property
    def passages(self) -> Iterator[str]:
        """The ids of the passages that its rounds found."""
        for step in self.raw["steps"]:
            yield from (passage["id"] for passage in step.get("passages") or ())


def read_traces(path: Path) -> list[TraceRecord]:
    """Return the traces of a file.

    Raises RecordError (file, line, field) for a line that is none, and EmptyTracesError.
    """
    traces = list(read_records(path, TraceRecord))
    if not traces:
        raise EmptyTracesError(f"{path}: the file holds no trace. {REMEDY}.")
    return traces


def found_passages(traces: Sequence[TraceRecord], corpus: Iterable[Passage]) -> list[Passage]:
    """Return the passages of a corpus that any of the traces found."""
    wanted = {identifier for trace in traces for identifier in trace.passages}
    return [passage for passage in corpus if passage.id in wanted]


def _need_number(reader: FieldReader, name: str) -> None:
    value = reader.record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = "missing" if value is None else f"is {type(value).__name__}, not a number"
        raise reader.fail(name, problem, REMEDY)


def _read_step(value: Any) -> None:
    """Read a round for its form alone. Raises TypeError, ValueError or KeyError."""
    str(value["subquery"])
    for passage in value.get("passages") or ():
        if not isinstance(passage["id"], str):
            raise TypeError("an id is a string")
    for triple in value.get("triples") or ():
        read_triple(triple)


def _holds_infinity(value: Any) -> bool:
    """Tell whether a number anywhere in JSON is not finite."""
    if isinstance(value, dict):
        return any(map(_holds_infinity, value.values()))
    if isinstance(value, list):
        return any(map(_holds_infinity, value))
    return isinstance(value, float) and not math.isfinite(value)
