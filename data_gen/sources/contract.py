"""Questions in our own contract, and single-hop sets that differ from it in a field or two."""

from typing import Any

from data_gen.sources.checks import question_record
from data_gen.sources.rows import Row
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def convert(row: Row) -> QuestionRecord:
    """Return one row in the contract's form. Raises RecordError.

    Also taken: no `id` (it becomes `<file stem>:<line>`); `answers` as a list, the first is the
    answer; `question_type` for `type`; `paragraphs` of {title, text, is_supporting} (PopQA) and
    `evidence_list` of {title, fact} (MultiHop-RAG) for `context` and `supporting_facts`;
    `sub_questions` for `question_decomposition`; `choices` (ARC), which are written after the
    question under letters, the letter being the answer and the choice's text its alias.
    """
    reader = FieldReader(row.value, row.where)
    record = dict(reader.record)
    if record.get("id") is None:
        record["id"] = row.fallback_id
    _rename(record, "answers", "answer")
    _rename(record, "question_type", "type")
    _rename(record, "sub_questions", "question_decomposition")
    for field, text in (("paragraphs", "text"), ("evidence_list", "fact")):
        if record.get("context") is None and record.get(field) is not None:
            record.update(_context(reader, field, text))
    if record.get("choices") is not None:
        record.update(_with_choices(reader))
    return question_record(record, row.where)


def _rename(record: dict[str, Any], old: str, new: str) -> None:
    if record.get(new) is None and record.get(old) is not None:
        record[new] = record[old]


def _context(reader: FieldReader, field: str, text: str) -> dict[str, Any]:
    """Return context and supporting facts from a list of passages; one without a mark supports."""

    def passage(value: Any) -> tuple[str, str, bool]:
        return str(value["title"]), str(value[text]), bool(value.get("is_supporting", True))

    passages = reader.items(field, passage, f"{{title, {text}}}")
    return {
        "context": [[title, [body]] for title, body, _ in passages],
        "supporting_facts": [[title, 0] for title, _, supporting in passages if supporting],
    }


def _with_choices(reader: FieldReader) -> dict[str, Any]:
    """Return question, answer and aliases of a multiple-choice question; labels become letters."""
    choices, answer = reader.record["choices"], reader.text("answer")
    if not isinstance(choices, dict) or len(choices) > len(_LETTERS):
        raise reader.fail("choices", "not an object of labels", 'Write {"A": text, "B": text}')
    if answer not in choices:
        problem = f"{answer!r} is none of the choices {list(choices)}"
        raise reader.fail("answer", problem, "Write the label of the right choice")
    letters = dict(zip(choices, _LETTERS, strict=False))
    lines = [f"{letters[label]}: {text}" for label, text in choices.items()]
    return {
        "question": "\n".join([reader.text("question"), *lines]),
        "answer": letters[answer],
        "answer_aliases": [str(choices[answer])],
    }
