"""List fields in the forms that the sources' copies give them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from models.formats.fields import FieldReader

CONTEXT_COLUMNS = (("title",), ("sentences", "content"))
FACT_COLUMNS = (("title",), ("sent_id", "sentence_index"))
EVIDENCE_COLUMNS = (("fact", "subject"), ("relation", "predicate"), ("entity", "object"))


def list_items(
    reader: FieldReader, field: str, columns: Sequence[Sequence[str]], required: bool = True
) -> list[Any]:
    """A field as a list of lists, whichever form it has.

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
    """A dictionary of lists as the list of dictionaries it stands for; another value as it is."""
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
