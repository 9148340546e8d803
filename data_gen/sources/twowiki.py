"""2WikiMultihopQA: HotpotQA's form plus evidence triples."""

from collections.abc import Iterator
from pathlib import Path

from data_gen.sources import contract, hotpotqa
from data_gen.sources.checks import EVIDENCE_COLUMNS, list_items, question_record
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord


def read(path: str | Path, on_error: OnError | None = None) -> Iterator[QuestionRecord]:
    """Read the official train.json or dev.json, a Parquet copy, or a contract file.

    A few original records have a supporting sentence index past the paragraph's end. Raises
    RecordError; with `on_error` the record is handed to it as that error and skipped.
    """
    return convert_rows(read_rows(path, on_error), convert, on_error)


def convert(row: Row) -> QuestionRecord:
    """Return one row in the official, the hub's or the contract's form. Raises RecordError.

    The Wikidata ids (`evidences_id`, `answer_id`) are left out.
    """
    reader = FieldReader(row.value, row.where)
    if not hotpotqa.is_official(reader.record):
        return contract.convert(row)
    evidences = list_items(reader, "evidences", EVIDENCE_COLUMNS, required=False)
    return question_record({**hotpotqa.to_contract(reader), "evidences": evidences}, row.where)
