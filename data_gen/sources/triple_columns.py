"""The triples and the text of a row, whatever the source calls them."""

import json
from collections.abc import Sequence
from typing import Any

from models.formats.fields import FieldReader
from models.formats.triples import parse_triples


def text_column(reader: FieldReader, names: Sequence[str]) -> str:
    """Return the first of these fields that the row has. Raises RecordError when it has none."""
    return reader.text(column_name(reader, names))


def column_name(reader: FieldReader, names: Sequence[str]) -> str:
    """Return the name of the first of these fields that the row has. Raises RecordError."""
    for name in names:
        if reader.record.get(name) is not None:
            return name
    choices = " or ".join(repr(name) for name in names)
    raise reader.fail(names[0], f"missing (fields: {', '.join(reader.record)})", f"Add {choices}")


def triples_column(reader: FieldReader, names: Sequence[str]) -> list[Any]:
    """Return the row's triples as a list: a list as it is, or a JSON or `(<S> ...)` text.
    RecordError.
    """
    name = column_name(reader, names)
    value = reader.record[name]
    if not isinstance(value, str):
        return reader.items(name, _as_list, "[subject, predicate, object]")
    if value.lstrip().startswith("["):
        try:
            return FieldReader({name: json.loads(value)}, reader.where).items(
                name, _as_list, "[subject, predicate, object]"
            )
        except json.JSONDecodeError as error:
            raise reader.fail(name, f"malformed JSON ({error})", "Write a JSON list") from None
    parsed = parse_triples(value)
    if parsed.malformed:
        problem = f"{parsed.malformed} malformed besides {len(parsed.triples)} well-formed triples"
        raise reader.fail(name, problem, "Write (<S> subject| <P> predicate| <O> object), ...")
    return [list(vars(triple).values()) for triple in parsed.triples]


def _as_list(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise TypeError("not a list of strings")
    return value
