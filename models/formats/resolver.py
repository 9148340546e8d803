"""What the resolver reads and writes: an open query triplet, and what passages make of it
(T²RAG §4.3, step 2.2)."""

from collections.abc import Iterable

from models.formats.history import one_line
from models.formats.query_triplets import (
    QueryTriplet,
    filled_in,
    format_query_triplet,
    parse_query_triplets,
)

NOTHING = "nothing"
"""Written where the passages do not tell."""


def resolve_prompt(triplet: QueryTriplet, context: Iterable[str]) -> str:
    """The prompt to fill a triplet; ends in a line break, the filled triplet follows.

    context: passages as `passage_text` gives them, or propositions, best first.
    """
    lines = [
        *(f"Passage: {one_line(text)}" for text in context),
        f"Open: {format_query_triplet(triplet)}",
        "Filled:",
    ]
    return "\n".join(lines) + "\n"


def format_resolution(filled: QueryTriplet | None) -> str:
    """The filled triplet, or the word for none."""
    return NOTHING if filled is None else format_query_triplet(filled)


def parse_resolution(text: str, triplet: QueryTriplet) -> QueryTriplet | None:
    """The open triplet as a model filled it, see `filled_in`; never raises.

    None for "nothing", and where no line fills it.
    """
    for written in parse_query_triplets(text).triplets:
        if (filled := filled_in(triplet, written)) is not None:
            return filled
    return None
