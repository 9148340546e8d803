"""ARC's multiple-choice questions: the official files, the hub's copies, our contract's form."""

from typing import Any

from data_gen.sources import contract
from data_gen.sources.rows import Row
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord

_SHAPE = "{text, label}"


def convert(row: Row) -> QuestionRecord:
    """Return one row with `answerKey`, else one in the contract's form. Raises RecordError.

    Taken are `question: {stem, choices: [{text, label}]}` (official) and `question, choices:
    {text: [...], label: [...]}` (hub).
    """
    reader = FieldReader(row.value, row.where)
    if "answerKey" not in reader.record:
        return contract.convert(row)
    question = reader.record.get("question")
    if isinstance(question, dict):
        inside = FieldReader(question, row.where)
        stem, choices = inside.text("stem"), inside.items("choices", _labelled, _SHAPE)
    else:
        stem, choices = reader.text("question"), _columns(reader)
    given = {
        "id": reader.record.get("id"),
        "question": stem,
        "choices": dict(choices),
        "answer": reader.text("answerKey"),
    }
    return contract.convert(Row(given, row.where, row.fallback_id))


def _labelled(value: Any) -> tuple[str, str]:
    return str(value["label"]), str(value["text"])


def _columns(reader: FieldReader) -> list[tuple[str, str]]:
    columns = reader.record.get("choices")
    if not isinstance(columns, dict) or {"text", "label"} - set(columns):
        raise reader.fail("choices", "has the wrong form", "Write lists named text and label")
    labels, texts = (list(map(str, columns[name])) for name in ("label", "text"))
    if len(labels) != len(texts):
        raise reader.fail("choices", "has not as many labels as texts", "Give each text a label")
    return list(zip(labels, texts, strict=True))
