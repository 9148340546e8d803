"""Clues: query triplets as a prompted model reads and fills them, several in one text
(T²RAG App. F)."""

import re
from collections.abc import Iterable

from models.formats.history import one_line
from models.formats.query_triplets import (
    ParsedQueryTriplets,
    QueryTriplet,
    parse_query_triplets,
)

_NAMES = ("Subject", "Predicate", "Object")
_ANY = "|".join(_NAMES)
# A backslash before the colon marks the word as part of a field.
_WRITTEN = re.compile(rf"(?P<name>{_ANY})(?P<escape>\\*)(?P<rest>\**\s*:)", re.IGNORECASE)
_RESTORED = re.compile(rf"(?P<name>{_ANY})\\(?P<escape>\\*)(?P<rest>\**\s*:)", re.IGNORECASE)
_MARK = r"(?:\n\s*[-*•]\s+)?(?<!\w)\**{}\**\s*:\**"
_SUBJECT, _PREDICATE, _OBJECT = (re.compile(_MARK.format(name), re.IGNORECASE) for name in _NAMES)
_NEXT = re.compile(r"\n|\s+\**(?:fully\s+resolved|newly\s+searchable)\s+clue", re.IGNORECASE)


def format_clue(triplet: QueryTriplet) -> str:
    """`Subject: s Predicate: p Object: o` on one line. Raises ValueError for an empty field."""
    values = [one_line(field) for field in triplet.fields]
    if not all(values):
        raise ValueError("a clue's field is empty; write ? where it is not known")
    pairs = zip(_NAMES, values, strict=True)
    return " ".join(f"{name}: {_WRITTEN.sub(_escaped, value)}" for name, value in pairs)


def format_clues(resolved: Iterable[QueryTriplet], searchable: Iterable[QueryTriplet]) -> str:
    """The two lists that a model returns."""
    lines = [
        *(f"Fully Resolved Clue {n}: {format_clue(t)}" for n, t in enumerate(resolved, start=1)),
        *(f"Newly Searchable Clue {n}: {format_clue(t)}" for n, t in enumerate(searchable, 1)),
    ]
    return "\n".join(lines)


def parse_clues(text: str) -> ParsedQueryTriplets:
    """Read every clue of a model's text, also one written as `s | p | o`; never raises.

    The headings are not needed: a clue without a placeholder is resolved. Malformed are clues that
    were begun and are not whole, and a text with nothing of either form unless it is blank. A star
    around a field or a comma behind it is taken for the list's own.
    """
    pieces = _SUBJECT.split(text)[1:]
    if not pieces:
        return parse_query_triplets(text)
    found = [triplet for triplet in map(_read_clue, pieces) if triplet is not None]
    return ParsedQueryTriplets(found, len(pieces) - len(found))


def _read_clue(piece: str) -> QueryTriplet | None:
    """The clue whose subject a piece begins with; None where a field is missing."""
    subject, predicate_mark, rest = _cut(piece, _PREDICATE)
    predicate, object_mark, rest = _cut(rest, _OBJECT)
    object_ = _NEXT.split(rest.strip(), maxsplit=1)[0]
    fields = [_restored(field) for field in (subject, predicate, object_)]
    whole = predicate_mark and object_mark and all(fields)
    return QueryTriplet(*fields) if whole else None


def _cut(text: str, mark: re.Pattern[str]) -> tuple[str, bool, str]:
    """What stands before the first mark, whether there is one, and what follows."""
    match = mark.search(text)
    return (text[: match.start()], True, text[match.end() :]) if match else (text, False, "")


def _escaped(match: re.Match[str]) -> str:
    return f"{match['name']}{match['escape']}\\{match['rest']}"


def _restored(field: str) -> str:
    """A field without what escapes it, and without the list's own punctuation around it."""
    plain = one_line(field).strip("*").strip().removesuffix(",")
    return _RESTORED.sub(r"\g<name>\g<escape>\g<rest>", plain).strip()
