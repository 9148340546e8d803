"""General instructions with their outputs, which need no retrieval (RAS Fig. 9)."""

from data_gen.sources.checks import question_record
from data_gen.sources.rows import Row
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord

_INPUT = "\n\n## Input:\n\n"


def convert(row: Row) -> QuestionRecord:
    """Return one row of {instruction, input (may be empty), output}. Raises RecordError."""
    reader = FieldReader(row.value, row.where)
    given = reader.text("input", "").strip()
    instruction = reader.text("instruction").strip()
    record = {
        "id": reader.text("id", row.fallback_id),
        "question": f"{instruction}{_INPUT}{given}" if given else instruction,
        "answer": reader.text("output"),
        "type": "instruction",
    }
    return question_record(record, row.where)
