"""HotpotQA: the official distractor files, the hub's copies, and files in our contract."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_gen.sources import contract
from data_gen.sources.checks import CONTEXT_COLUMNS, FACT_COLUMNS, list_items, question_record
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord


def read(path: str | Path, on_error: OnError | None = None) -> Iterator[QuestionRecord]:
    """Read hotpot_train_v1.1.json, hotpot_dev_distractor_v1.json or a contract file.

    Raises RecordError; with `on_error` the record is handed to it as that error and skipped.
    """
    return convert_rows(read_rows(path, on_error), convert, on_error)


def convert(row: Row) -> QuestionRecord:
    """Return one row in the official, the hub's or the contract's form. Raises RecordError."""
    reader = FieldReader(row.value, row.where)
    if not is_official(reader.record):
        return contract.convert(row)
    return question_record(to_contract(reader), row.where)


def is_official(record: dict[str, Any]) -> bool:
    """Tell whether a question has the official form or the hub's: known by `_id` and `context`."""
    context = record.get("context")
    objects = isinstance(context, list) and any(isinstance(item, dict) for item in context)
    return "_id" in record or objects or isinstance(context, dict | str)


def to_contract(reader: FieldReader) -> dict[str, Any]:
    """Return an official question in the contract's form; paragraphs and their facts are
    required.
    """
    return {
        "id": reader.text("_id") if "_id" in reader.record else reader.text("id"),
        "question": reader.text("question"),
        "answer": reader.text("answer"),
        "type": reader.text("type", ""),
        "context": list_items(reader, "context", CONTEXT_COLUMNS),
        "supporting_facts": list_items(reader, "supporting_facts", FACT_COLUMNS),
    }
