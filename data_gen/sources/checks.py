"""Checks of every source's records, and list fields in the forms that copies give them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import RecordError
from models.formats.fields import FieldReader, check_triples
from models.formats.records import QuestionRecord, TriplesSample

CONTEXT_COLUMNS = (("title",), ("sentences", "content"))
FACT_COLUMNS = (("title",), ("sent_id", "sentence_index"))
EVIDENCE_COLUMNS = (("fact", "subject"), ("relation", "predicate"), ("entity", "object"))


def list_items(
    reader: FieldReader, field: str, columns: Sequence[Sequence[str]], required: bool = True
) -> list[Any]:
    """Return a field as a list of lists, whichever form it has.

    Takes `[[a, b], ...]`; a dictionary of lists `{"title": [...], "sentences": [...]}` and a list
    of dictionaries, both as the hub's copies have them (`columns` gives each column's possible
    names); and any of these as JSON text. Raises RecordError.
    """
    value = reader.record.get(field)
    names = " and ".join(repr(column[0]) for column in columns)
    remedy = f"Give a list of lists, or lists named {names}"
    if value is None:
        if required:
            raise reader.fail(field, "missing", remedy)
        return []
    try:
        items = _as_lists(json.loads(value) if isinstance(value, str) else value, columns)
    except (KeyError, ValueError, TypeError) as error:
        raise reader.fail(field, f"has the wrong form ({error})", remedy) from None
    return items


def as_objects(value: Any) -> Any:
    """Return a dictionary of lists as a list of dictionaries; another value as it is."""
    if not isinstance(value, Mapping) or not all(isinstance(v, list) for v in value.values()):
        return value
    rows = zip(*value.values(), strict=False)
    return [dict(zip(value, row, strict=True)) for row in rows]


def _as_lists(value: Any, columns: Sequence[Sequence[str]]) -> list[Any]:
    if isinstance(value, Mapping):
        lists = [_pick(value, column) for column in columns]
        return [list(item) for item in zip(*lists, strict=True)]
    if not isinstance(value, list):
        raise TypeError(f"is {type(value).__name__}, not a list")
    return [
        [_pick(item, column) for column in columns] if isinstance(item, Mapping) else item
        for item in value
    ]


def _pick(value: Mapping[str, Any], column: Sequence[str]) -> Any:
    for name in column:
        if name in value:
            return value[name]
    raise KeyError(f"no {column[0]!r}")


def question_record(contract: dict[str, Any], where: str) -> QuestionRecord:
    """Return a checked QuestionRecord from an object in the contract's form. Raises RecordError."""
    record = QuestionRecord.from_json(contract, where)
    for field in ("id", "question", "answer"):
        if not getattr(record, field).strip():
            raise RecordError(where, field, "is blank", f"Write a text in '{field}'")
    check_supporting_facts(record, where)
    check_triples(record.evidences, "evidences", where)
    return record


def triples_sample(contract: dict[str, Any], where: str) -> TriplesSample:
    """Return a checked TriplesSample from an object in the contract's form. Raises RecordError."""
    sample = TriplesSample.from_json(contract, where)
    for field in ("id", "text"):
        if not getattr(sample, field).strip():
            raise RecordError(where, field, "is blank", f"Write a text in '{field}'")
    return sample


def check_supporting_facts(record: QuestionRecord, where: str) -> None:
    """Raise RecordError for a support that is not in the record's context.

    A supporting fact needs a paragraph of its title with a sentence of its index; titles may
    repeat, then one such paragraph is enough. A decomposition step's `paragraph_support_idx`
    must be a position in the context. A record without context has nothing to check against.
    """
    if not record.context:
        return
    sentences: dict[str, int] = {}
    for title, texts in record.context:
        sentences[title] = max(sentences.get(title, 0), len(texts))
    for position, (title, index) in enumerate(record.supporting_facts):
        problem = _fact_problem(title, index, sentences)
        if problem:
            field, remedy = f"supporting_facts[{position}]", "Correct the fact or skip the record"
            raise RecordError(where, field, problem, remedy)
    for position, step in enumerate(record.question_decomposition):
        place = step.paragraph_support_idx
        if place is not None and not 0 <= place < len(record.context):
            field = f"question_decomposition[{position}].paragraph_support_idx"
            problem = f"{place} is out of range (the context has {len(record.context)} paragraphs)"
            raise RecordError(where, field, problem, "Correct the index or skip the record")


def _fact_problem(title: str, index: int, sentences: dict[str, int]) -> str:
    if title not in sentences:
        return f"no paragraph in the context is titled {title!r}"
    if not 0 <= index < sentences[title]:
        return f"sentence index {index} of {title!r} is out of range (0 to {sentences[title] - 1})"
    return ""
