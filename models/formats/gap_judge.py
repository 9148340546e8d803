"""What the gap judge reads and writes: the facts found, and those that a question still needs
(Trig-Nav §3.2)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from models.formats.history import one_line
from models.formats.query_triplets import (
    QueryTriplet,
    format_query_triplet,
    format_query_triplets,
    parse_query_triplets,
)
from models.formats.triples import Triple

ENOUGH = "enough"
"""Written where nothing is missing."""
_ENOUGH = re.compile(rf"\W*{ENOUGH}\b", re.IGNORECASE)


@dataclass(frozen=True)
class ParsedGap:
    """A judgement; `missing` is empty for "enough" and None for a text that is neither."""

    missing: list[QueryTriplet] | None
    malformed: int


def gap_prompt(question: str, facts: Sequence[Triple]) -> str:
    """The prompt for what is missing; ends in a line break, the judgement follows.

    facts: found so far, in the order found; may be none.
    """
    known = [QueryTriplet(fact.subject, fact.predicate, fact.object) for fact in facts]
    lines = [
        f"Question: {one_line(question)}",
        *(f"Known: {format_query_triplet(fact)}" for fact in known),
        "Missing:",
    ]
    return "\n".join(lines) + "\n"


def format_gap(missing: Sequence[QueryTriplet]) -> str:
    """The missing facts as query triplets, one a line, or the word for none."""
    return format_query_triplets(missing) if missing else ENOUGH


def parse_gap(text: str) -> ParsedGap:
    """Read a judgement; never raises.

    The word "enough" counts only where it opens the text, so that "not enough" is none.
    """
    parsed = parse_query_triplets(text)
    if parsed.triplets:
        return ParsedGap(parsed.triplets, parsed.malformed)
    if _ENOUGH.match(text):
        return ParsedGap([], 0)
    return ParsedGap(None, max(parsed.malformed, 1))
