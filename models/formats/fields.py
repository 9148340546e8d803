"""Typed reading of one JSON object's fields, with errors that name the field."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from common.errors import RecordError
from models.formats.triples import Triple

T = TypeVar("T")


class FieldReader:
    """Reads fields of one JSON object and names the place in every error."""

    def __init__(self, record: Any, where: str) -> None:
        self.where = where
        if not isinstance(record, dict):
            raise RecordError(where, "(record)", "not a JSON object", "Write one object a line")
        self.record = record

    def fail(self, field: str, problem: str, remedy: str) -> RecordError:
        """An error about `field` of this record, to be raised by the caller."""
        return RecordError(self.where, field, problem, remedy)

    def text(self, field: str, default: str | None = None) -> str:
        """A string field; numbers are taken as text. Raises RecordError without a default."""
        value = self.record.get(field)
        if value is None:
            if default is not None:
                return default
            raise self.fail(field, "missing", f"Add '{field}' as a string")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            kind = type(value).__name__
            raise self.fail(field, f"is {kind}, not a string", f"Write '{field}' as a string")
        return str(value)

    def filled_text(self, field: str) -> str:
        """A string field that is not blank. Raises RecordError."""
        value = self.text(field)
        if not value.strip():
            raise self.fail(field, "is blank", f"Write a text in '{field}'")
        return value

    def number(self, field: str, least: float = -math.inf) -> float:
        """A finite number of `least` or more. Raises RecordError."""
        value = self.record.get(field)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not (math.isfinite(value) and value >= least)
        ):
            wanted = "a finite number" if least == -math.inf else f"a number of {least:g} or more"
            raise self.fail(field, f"is {value!r}", f"Write {wanted}")
        return float(value)

    def whole_number(self, field: str) -> int:
        """A whole number of 0 or more. Raises RecordError."""
        value = self.record.get(field)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.fail(field, f"is {value!r}", "Write a whole number of 0 or more")
        return value

    def choice(self, field: str, choices: Sequence[T]) -> T:
        """One of these texts. Raises RecordError."""
        value = self.text(field)
        for choice in choices:
            if value == choice:
                return choice
        raise self.fail(field, f"is {value!r}", f"Write one of {', '.join(map(str, choices))}")

    def optional(self, field: str, read: Callable[[str], T]) -> T | None:
        """What `read` makes of a field; None where it is missing or null."""
        return None if self.record.get(field) is None else read(field)

    def items(self, field: str, read: Callable[[Any], T], shape: str) -> list[T]:
        """A list field whose items `read` turns into T; missing or null is an empty list."""
        values = self.record.get(field)
        if values is None:
            return []
        if not isinstance(values, list):
            raise self.fail(field, "not a list", f"Write a list of {shape}")
        items = []
        for index, value in enumerate(values):
            try:
                items.append(read(value))
            except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
                name = f"{field}[{index}]"
                raise self.fail(name, "has the wrong form", f"Write {shape}") from None
        return items


def read_triple(value: Any) -> Triple:
    """`[subject, predicate, object]` as a Triple. Raises ValueError on another form."""
    subject, predicate, object_ = (str(part) for part in _sequence(value, 3))
    return Triple(subject, predicate, object_)


def check_triples(triples: Sequence[Triple], field: str, where: str) -> None:
    """Raise RecordError, which names `where` and the field, for a triple with a blank part."""
    for position, triple in enumerate(triples):
        blank = [name for name, text in vars(triple).items() if not text.strip()]
        if blank:
            name = f"{field}[{position}]"
            raise RecordError(where, name, f"blank {blank[0]}", "Fill it in or skip the record")


def triple_json(triple: Triple) -> list[str]:
    """A Triple as `[subject, predicate, object]`."""
    return [triple.subject, triple.predicate, triple.object]


def read_paragraph(value: Any) -> tuple[str, list[str]]:
    """`[title, [sentence, ...]]` as a pair. Raises ValueError on another form."""
    title, sentences = _sequence(value, 2)
    return str(title), [str(sentence) for sentence in _sequence(sentences)]


def read_supporting_fact(value: Any) -> tuple[str, int]:
    """`[title, sentence_index]` as a pair. Raises ValueError on another form."""
    title, index = _sequence(value, 2)
    return str(title), int(index)


def _sequence(value: Any, length: int | None = None) -> list[Any]:
    if not isinstance(value, list | tuple) or (length is not None and len(value) != length):
        raise ValueError(f"not a list of {length} items")
    return list(value)
