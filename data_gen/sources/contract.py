"""Questions in our own contract, and sets of one hop brought into it: ARC, ASQA, reading, others.

A reader turns one row into a question, or raises RecordError.
"""

from typing import Any

from data_gen.sources.checks import as_objects, question_record
from data_gen.sources.rows import Row
from models.formats.fields import FieldReader
from models.formats.helpers import NOTHING
from models.formats.reading import ReadingRecord
from models.formats.records import QuestionRecord

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def contract_question(row: Row) -> QuestionRecord:
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


_CHOICE = "{text, label}"
_NO_CONTEXT = "No context provided"
_INPUT = "\n\n## Input:\n\n"


def arc_question(row: Row) -> QuestionRecord:
    """Return one row with `answerKey`, else one in the contract's form. Raises RecordError.

    Taken are `question: {stem, choices: [{text, label}]}` (official) and `question, choices:
    {text: [...], label: [...]}` (hub).
    """
    reader = FieldReader(row.value, row.where)
    if "answerKey" not in reader.record:
        return contract_question(row)
    question = reader.record.get("question")
    if isinstance(question, dict):
        inside = FieldReader(question, row.where)
        stem = inside.text("stem")
        choices = inside.items("choices", lambda c: (str(c["label"]), str(c["text"])), _CHOICE)
    else:
        stem, choices = reader.text("question"), _columns(reader)
    given = {
        "id": reader.record.get("id"),
        "question": stem,
        "choices": dict(choices),
        "answer": reader.text("answerKey"),
    }
    return contract_question(Row(given, row.where, row.fallback_id))


def reading_question(row: Row) -> QuestionRecord:
    """Return a question with its one passage, to be answered in one step. Raises RecordError.

    The answer to a question that its passage does not settle is the word for none, `NOTHING`.
    """
    reading = ReadingRecord.from_json(row.value, row.where)
    step = {"question": reading.question, "answer": reading.answer, "paragraph_support_idx": 0}
    record = {
        "id": reading.id,
        "question": reading.question,
        "answer": [reading.answer or NOTHING, *reading.answer_aliases],
        "type": reading.source,
        "context": [[reading.title, [reading.passage]]],
        "supporting_facts": [[reading.title, 0]],
        "question_decomposition": [step],
    }
    return question_record(record, row.where)


def has_short_answer(row: Row) -> bool:
    """Return whether a read passage's answer is a span or nothing; others are passed over."""
    # What is not an object goes on to `reading_question`, which says so.
    return not isinstance(row.value, dict) or not row.value.get("answer_form")


def _columns(reader: FieldReader) -> list[tuple[str, str]]:
    columns = reader.record.get("choices")
    if not isinstance(columns, dict) or {"text", "label"} - set(columns):
        raise reader.fail("choices", "has the wrong form", "Write lists named text and label")
    labels, texts = (list(map(str, columns[name])) for name in ("label", "text"))
    if len(labels) != len(texts):
        raise reader.fail("choices", "has not as many labels as texts", "Give each text a label")
    return list(zip(labels, texts, strict=True))


def asqa_question(row: Row) -> QuestionRecord:
    """Return one row of the hub's copy (`din0s/asqa`), else one in the contract's form.

    Raises RecordError. The answer is the first annotator's, those of the others are aliases. Each
    disambiguated question with a context becomes a step of `question_decomposition` on it.
    """
    reader = FieldReader(row.value, row.where)
    if "ambiguous_question" not in reader.record:
        return contract_question(row)
    answers = [
        a
        for a in _objects(
            reader, "annotations", lambda v: str(v["long_answer"]).strip(), "{long_answer}"
        )
        if a
    ]
    if not answers:
        raise reader.fail("annotations", "holds no long_answer", "Give one, or skip the record")
    pairs = _objects(reader, "qa_pairs", _pair, "{question, short_answers, context, wikipage}")
    grounded = [pair for pair in pairs if pair[2]]
    record = {
        "id": reader.text("sample_id", row.fallback_id),
        "question": reader.text("ambiguous_question"),
        "answer": answers,
        "type": "asqa",
        "context": [[title, [text]] for _, _, text, title in grounded],
        "supporting_facts": [[title, 0] for *_, title in grounded],
        "question_decomposition": [
            {"question": question, "answer": answer, "paragraph_support_idx": index}
            for index, (question, answer, _, _) in enumerate(grounded)
        ],
    }
    return question_record(record, row.where)


def _objects(reader: FieldReader, field: str, read: Any, shape: str) -> list[Any]:
    values = {field: as_objects(reader.record.get(field))}
    return FieldReader(values, reader.where).items(field, read, shape)


def _pair(value: Any) -> tuple[str, str, str, str]:
    """Return question, first short answer, context ('' for none) and the context's title."""
    answers = [str(answer) for answer in value.get("short_answers") or []]
    context = str(value.get("context") or "").strip()
    text = "" if context == _NO_CONTEXT else context
    return (
        str(value["question"]),
        answers[0] if answers else "",
        text,
        str(value.get("wikipage") or ""),
    )


def instruction(row: Row) -> QuestionRecord:
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
