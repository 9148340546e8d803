"""ASQA: ambiguous questions with a long answer and the questions that they may stand for."""

from typing import Any

from data_gen.sources import contract
from data_gen.sources.checks import as_objects, question_record
from data_gen.sources.rows import Row
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord

_NO_CONTEXT = "No context provided"


def convert(row: Row) -> QuestionRecord:
    """Return one row of the hub's copy (`din0s/asqa`), else one in the contract's form.

    Raises RecordError. The answer is the first annotator's, those of the others are aliases. Each
    disambiguated question with a context becomes a step of `question_decomposition` on it.
    """
    reader = FieldReader(row.value, row.where)
    if "ambiguous_question" not in reader.record:
        return contract.convert(row)
    answers = [a for a in _objects(reader, "annotations", _long_answer, "{long_answer}") if a]
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


def _long_answer(value: Any) -> str:
    return str(value["long_answer"]).strip()


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
