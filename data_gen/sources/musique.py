"""MuSiQue: the official musique_ans and musique_full files, and files in our contract."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_gen.sources import contract
from data_gen.sources.checks import as_objects, question_record
from data_gen.sources.rows import OnError, Row, convert_rows, read_rows
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord

_SHAPE = "{idx, title, paragraph_text, is_supporting}"


def read(path: str | Path, on_error: OnError | None = None) -> Iterator[QuestionRecord]:
    """Read musique_ans_v1.0_*.jsonl, musique_full_v1.0_*.jsonl or a contract file.

    A paragraph is one sentence of the context, and a supporting one is (title, 0). Unanswerable
    questions of musique_full are errors, since their paragraphs do not hold the answer. Raises
    RecordError; with `on_error` the record is handed to it as that error and skipped.
    """
    return convert_rows(read_rows(path, on_error), convert, on_error)


def convert(row: Row) -> QuestionRecord:
    """Return one row in the official or the contract's form, known by `paragraphs`."""
    reader = FieldReader(row.value, row.where)
    if reader.record.get("paragraphs") is None:
        return contract.convert(row)
    if reader.record.get("answerable") is False:
        problem, remedy = (
            "the question has no answer in its paragraphs",
            "Skip it or use musique_ans",
        )
        raise reader.fail("answerable", problem, remedy)
    return question_record(_to_contract(reader), row.where)


def _to_contract(reader: FieldReader) -> dict[str, Any]:
    identity = reader.text("id")
    paragraphs = _paragraphs(reader)
    return {
        "id": identity,
        "question": reader.text("question"),
        "answer": reader.text("answer"),
        "answer_aliases": reader.record.get("answer_aliases"),
        # The id's first part is the kind of reasoning: "2hop__1_2", "3hop1__1_2_3".
        "type": identity.split("__")[0] if "__" in identity else "",
        "context": [[title, [text]] for title, text, _ in paragraphs],
        "supporting_facts": [[title, 0] for title, _, supporting in paragraphs if supporting],
        "question_decomposition": as_objects(reader.record.get("question_decomposition")),
    }


def _paragraphs(reader: FieldReader) -> list[tuple[str, str, bool]]:
    """Return title, text and support of each paragraph, at the position that its `idx` says."""
    columns = FieldReader({"paragraphs": as_objects(reader.record["paragraphs"])}, reader.where)
    values = sorted(columns.items("paragraphs", _read_paragraph, _SHAPE))
    positions = [position for position, *_ in values]
    if positions != list(range(len(values))):
        problem = f"idx runs {positions}, not 0 to {len(values) - 1}"
        raise reader.fail("paragraphs", problem, "Number the paragraphs from 0 without gaps")
    return [(title, text, supporting) for _, title, text, supporting in values]


def _read_paragraph(value: Any) -> tuple[int, str, str, bool]:
    title, text, position = value["title"], value["paragraph_text"], value["idx"]
    if not isinstance(title, str) or not isinstance(text, str):
        raise TypeError("title and paragraph_text are strings")
    return int(position), title, text, bool(value.get("is_supporting", False))
