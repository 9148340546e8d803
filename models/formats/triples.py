"""Triples as text: `(S> subject| P> predicate| O> object)` (RAS Fig. 14 and 19)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ESCAPES = str.maketrans(
    {"\\": "\\\\", "|": "\\|", "\n": "\\n", "\r": "\\r", "<": "\\<", ">": "\\>"}
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPES = {"n": "\n", "r": "\r"}
# A triple opens with "(S>" or WikiOFGraph's "(<S>"; a backslash before the tag marks quoted text.
_OPENING = re.compile(r"\(\s*(?:S>|<S>)")
_FIELDS = re.compile(
    r"\(\s*(?:S>|<S>)(?P<subject>(?:\\.|[^|\\])*)"
    r"\|\s*(?:P>|<P>)(?P<predicate>(?:\\.|[^|\\])*)"
    r"\|\s*(?:O>|<O>)(?P<object>(?:\\.|[^|\\])*)\Z",
    re.DOTALL,
)
_PARENTHESES = re.compile(r"\\.|[()]", re.DOTALL)


@dataclass(frozen=True, order=True)
class Triple:
    """One fact: subject, predicate and object as plain text."""

    subject: str
    predicate: str
    object: str


@dataclass(frozen=True)
class ParsedTriples:
    """What a text held: its well-formed triples, and how many pieces were not."""

    triples: list[Triple]
    malformed: int


def _balanced(text: str) -> bool:
    """Whether the unescaped parentheses of `text` pair up."""
    depth = 0
    for match in _PARENTHESES.finditer(text):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth < 0:
            return False
    return depth == 0


def escape_marks(text: str) -> str:
    """Return the text with its separators, tags and line breaks as a triple's field holds them."""
    return text.translate(_ESCAPES)


def escape_parentheses(text: str) -> str:
    """Return the text with its parentheses as a field holds those that do not pair up."""
    return text.replace("(", "\\(").replace(")", "\\)")


def _escape(field: str) -> str:
    """Escape what a reader would take for a separator, a tag or a triple's end."""
    field = field.strip()
    if not field:
        raise ValueError("a triple's field is empty; every field needs text")
    escaped = escape_marks(field)
    return escaped if _balanced(escaped) else escape_parentheses(escaped)


def unescaped(field: str) -> str:
    """Return a field without its escapes and the white space around it."""
    return _ESCAPED.sub(lambda match: _UNESCAPES.get(match[1], match[1]), field).strip()


def format_triple(triple: Triple) -> str:
    """Write one triple as `(S> subject| P> predicate| O> object)`.

    Fields lose surrounding white space. Raises ValueError when a field is empty.
    """
    subject, predicate, object_ = map(_escape, (triple.subject, triple.predicate, triple.object))
    return f"(S> {subject}| P> {predicate}| O> {object_})"


def format_triples(triples: Iterable[Triple]) -> str:
    """Write triples one after the other, joined by `, `."""
    return ", ".join(format_triple(triple) for triple in triples)


def _parse_piece(piece: str) -> Triple | None:
    """Read one piece that starts at a triple's opening; None when it is not well formed."""
    # What a model wrote behind the last parenthesis is not part of the triple.
    match = _FIELDS.match(piece[: max(piece.rfind(")"), 0)])
    if match is None or not all(map(_balanced, match.groups())):
        return None
    triple = Triple(*map(unescaped, match.group("subject", "predicate", "object")))
    return triple if triple.subject and triple.predicate and triple.object else None


def parse_triples(text: str) -> ParsedTriples:
    """Read every triple of a model's text; never raises.

    Text before the first triple or between two is ignored; text that has no triple at all counts
    as one malformed piece unless it is blank. A triple cut in the middle is malformed.
    """
    starts = [match.start() for match in _OPENING.finditer(text)]
    if not starts:
        return ParsedTriples([], int(bool(text.strip().strip("[]").strip())))
    ends = [*starts[1:], len(text)]
    parsed = [_parse_piece(text[start:end]) for start, end in zip(starts, ends, strict=True)]
    triples = [triple for triple in parsed if triple is not None]
    return ParsedTriples(triples, len(parsed) - len(triples))
