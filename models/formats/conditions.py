"""Condition triplets as text: `[C] condition [P] proof [R] conclusion` (Tri-RAG §III-A, eq. 8)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TAG = re.compile(r"\[\s*([CPR])\s*\]")
_TAG_OR_ESCAPE = re.compile(r"\\.|" + _TAG.pattern, re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_UNESCAPES = {"n": "\n", "r": "\r"}
_ORDER = ("C", "P", "R")


@dataclass(frozen=True, order=True)
class ConditionTriplet:
    """A claim with the scope under which it holds and what supports it; the proof may be empty."""

    condition: str
    proof: str
    conclusion: str


@dataclass(frozen=True)
class ParsedConditions:
    """What a text held: its well-formed triplets, and how many pieces were not."""

    triplets: list[ConditionTriplet]
    malformed: int


def format_condition(triplet: ConditionTriplet) -> str:
    """Write one triplet on one line; a proof may be empty, its tag stays.

    Fields lose surrounding white space. Raises ValueError on an empty condition or conclusion.
    """
    condition, proof, conclusion = map(
        escape_field, (triplet.condition, triplet.proof, triplet.conclusion)
    )
    if not condition or not conclusion:
        raise ValueError(
            "a triplet's condition and conclusion need text; only a proof may be empty"
        )
    return f"[C] {condition} [P] {proof} [R] {conclusion}".replace("[P]  [R]", "[P] [R]")


def format_conditions(triplets: Iterable[ConditionTriplet]) -> str:
    """Write triplets one a line."""
    return "\n".join(map(format_condition, triplets))


def parse_conditions(text: str) -> ParsedConditions:
    """Read every triplet of a model's text; never raises.

    A triplet is the tags [C], [P] and [R], each once and in this order, with text after the first
    and the last. Text before the first [C] is ignored; text without any counts as one malformed
    piece unless it is blank.
    """
    tags = [match for match in _TAG_OR_ESCAPE.finditer(text) if match[1]]
    starts = [place for place, match in enumerate(tags) if match[1] == "C"]
    if not starts:
        return ParsedConditions([], int(bool(text.strip())))
    triplets, malformed = [], 0
    for start, end in zip(starts, [*starts[1:], len(tags)], strict=True):
        stop = tags[end].start() if end < len(tags) else len(text)
        triplet = _parse_piece(text, tags[start:end], stop)
        if triplet is None:
            malformed += 1
        else:
            triplets.append(triplet)
    return ParsedConditions(triplets, malformed)


def _parse_piece(text: str, tags: list[re.Match[str]], stop: int) -> ConditionTriplet | None:
    """Read one piece that starts at its [C]; None when it is not well formed."""
    if tuple(match[1] for match in tags) != _ORDER:
        return None
    ends = [*(match.start() for match in tags[1:]), stop]
    fields = [_unescape(text[match.end() : end]) for match, end in zip(tags, ends, strict=True)]
    triplet = ConditionTriplet(*fields)
    return triplet if triplet.condition and triplet.conclusion else None


def escape_field(field: str) -> str:
    """Escape what a reader would take for a tag or a line's end."""
    escaped = "".join(_ESCAPES.get(character, character) for character in field.strip())
    return _TAG.sub(lambda match: "\\" + match[0], escaped)


def _unescape(field: str) -> str:
    return _ESCAPED.sub(lambda match: _UNESCAPES.get(match[1], match[1]), field).strip()
