"""Samples as Parquet rows: one explicit schema a contract, the same fields as in JSON Lines."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from models.formats.fields import RecordError
from models.formats.records import ConditionSample, RasSample, Record, TriplesSample

# Rows of a row group, which is what a reader holds of a file at least.
ROWS_OF_A_GROUP = 10_000
_TEXT = pyarrow.string()
# [subject, predicate, object], as in JSON Lines.
_TRIPLES = pyarrow.list_(pyarrow.list_(_TEXT))
_HISTORY = pyarrow.list_(pyarrow.struct([("subquery", _TEXT), ("triples", _TRIPLES)]))
_SCHEMAS: dict[type[Record], Any] = {
    RasSample: pyarrow.schema(
        [("id", _TEXT), ("task", _TEXT), ("question", _TEXT), ("history", _HISTORY),
         ("label", _TEXT)]
    ),
    TriplesSample: pyarrow.schema([("id", _TEXT), ("text", _TEXT), ("triples", _TRIPLES)]),
    ConditionSample: pyarrow.schema(
        [(name, _TEXT) for name in ("id", "text", "condition", "proof", "conclusion")]
    ),
}  # fmt: skip


class RowWriter:
    """Writes the records of JSON Lines files of one contract to Parquet files, in pieces.

    The contract is known by the fields of the first record: planner and answerer samples,
    text-to-triples samples, condition triplets, or any records whose fields are all texts.
    """

    def __init__(self, first: Path) -> None:
        where, record = next(_objects(first), (str(first), None))
        if record is None:
            raise RecordError(where, "(file)", "holds no record", "Name a folder with samples")
        if not isinstance(record, dict):
            raise RecordError(where, "(record)", "not a JSON object", "Write one object a line")
        types = {frozenset(schema.names): kind for kind, schema in _SCHEMAS.items()}
        self._type = types.get(frozenset(record))
        if self._type is not None:
            self.schema = _SCHEMAS[self._type]
        elif all(isinstance(value, str) for value in record.values()):
            self.schema = pyarrow.schema([(name, _TEXT) for name in record])
        else:
            problem = f"of no known contract (fields: {', '.join(record)})"
            raise RecordError(where, "(record)", problem, "Name a folder that a builder wrote")

    def write(self, source: Path, target: Path) -> int:
        """Write one file; how many rows it has. Raises RecordError, which names line and field."""
        count = 0
        waiting: list[tuple[str, dict[str, Any]]] = []
        with pyarrow.parquet.ParquetWriter(target, self.schema, compression="zstd") as writer:
            for where, record in _objects(source):
                waiting.append((where, self._checked(record, where)))
                count += 1
                if len(waiting) == ROWS_OF_A_GROUP:
                    writer.write_batch(self._batch(waiting))
                    waiting = []
            if waiting:
                writer.write_batch(self._batch(waiting))
        return count

    def _checked(self, record: Any, where: str) -> dict[str, Any]:
        if self._type is not None:
            return self._type.from_json(record, where).to_json()
        if not isinstance(record, dict) or list(record) != self.schema.names:
            names = ", ".join(self.schema.names)
            raise RecordError(where, "(record)", "has other fields", f"Write {names}")
        for name, value in record.items():
            if not isinstance(value, str):
                kind = type(value).__name__
                raise RecordError(where, name, f"is {kind}, not a string", "Write a text")
        return record

    def _batch(self, rows: Sequence[tuple[str, dict[str, Any]]]) -> Any:
        try:
            return pyarrow.RecordBatch.from_pylist([row for _, row in rows], self.schema)
        except (UnicodeError, pyarrow.ArrowException) as error:
            if len(rows) > 1:
                for row in rows:
                    self._batch([row])
            problem = f"cannot be written ({error})"
            raise RecordError(rows[0][0], "(record)", problem, "Correct the text") from None


def _objects(path: Path) -> Iterator[tuple[str, Any]]:
    """The JSON values of a file's lines, each with its place. Raises RecordError."""
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where = f"{path}:{number}"
                try:
                    yield where, json.loads(line)
                except ValueError as error:
                    problem = f"malformed JSON ({error})"
                    raise RecordError(where, "(line)", problem, "Build the folder again") from None
