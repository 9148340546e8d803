"""A base model's answers without context, which say what needs no retrieval (RAS Algorithm 1)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from models.formats.fields import FieldReader
from models.formats.records import Record, read_records


@dataclass(frozen=True)
class Attempt(Record):
    """The base model's answer to a question, and whether it is an answer of the record."""

    id: str
    prediction: str
    right: bool

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one attempt. Raises RecordError."""
        reader = FieldReader(record, where)
        if not isinstance(reader.record.get("right"), bool):
            raise reader.fail("right", "is not true or false", "Write true or false")
        return cls(reader.text("id"), reader.text("prediction", ""), reader.record["right"])


def read_right_ids(path: str | Path) -> set[str]:
    """Return the ids of questions answered right, of a file of attempts. Raises RecordError."""
    return {attempt.id for attempt in read_records(path, Attempt) if attempt.right}
