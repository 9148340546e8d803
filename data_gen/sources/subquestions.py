"""ProbTree's question trees, out of a file with decompositions in several forms.

The other forms have no whole sub-questions with answers: Break's steps are phrases, StrategyQA's
have no answers. The trees and their answers are a model's (silver).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_gen.sources.checks import question_record
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord

FORM = "LLM question tree"


def read(path: str | Path, on_error: OnError | None = None) -> Iterator[QuestionRecord]:
    """Read the records whose `form` is a question tree; those of another form are passed over.

    Raises RecordError; with `on_error` the record is handed to it as that error and skipped.
    """
    return convert_rows(filter(_is_tree, read_rows(path, on_error)), convert, on_error)


def convert(row: Row) -> QuestionRecord:
    """Return one tree, its leaves in their order as the decomposition. Raises RecordError.

    The id is the data set's name and the line's number where the row has none; the answer is the
    tree's own where the data set's is missing.
    """
    reader = FieldReader(row.value, row.where)
    leaves = reader.items("sub_questions", _read_leaf, "{question, answer, sons}")
    record = {
        "id": reader.text("id", f"{reader.text('dataset', '')}/{row.fallback_id}"),
        "question": reader.text("question"),
        "answer": reader.text("answer", reader.text("predicted_answer", "")),
        "question_decomposition": [leaf for leaf in leaves if leaf],
    }
    return question_record(record, row.where)


def _is_tree(row: Row) -> bool:
    # What is not an object goes on to `convert`, which says so.
    value = row.value
    return not isinstance(value, dict) or str(value.get("form", FORM)).startswith(FORM)


def _read_leaf(value: Any) -> dict[str, Any]:
    """Return a step; empty for a node that other nodes answer."""
    if value.get("sons"):
        return {}
    return {"question": str(value["question"]), "answer": str(value["answer"] or "")}
