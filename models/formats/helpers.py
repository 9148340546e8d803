"""Prompts and outputs of the helpers: decomposer, resolver, gap judge and sub-query writer."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.formats.planning import one_line, strip_tags
from models.formats.prompts import passage_text
from models.formats.query_triplets import (
    QueryTriplet,
    filled_in,
    format_query_triplet,
    format_query_triplets,
    parse_query_triplets,
)
from models.formats.triples import Triple

NOTHING = "nothing"
"""Written where the passages do not tell."""
ENOUGH = "enough"
"""Written where nothing is missing."""
_ENOUGH = re.compile(rf"\W*{ENOUGH}\b", re.IGNORECASE)
_LABEL = re.compile(
    r"^(?:(?:sub-?\s?(?:query|question)|query|question|output|answer)(?:\s*\d+)?"
    r"|(?:sure|certainly|of course|here)\b[^\n:?]{0,60})\s*:\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^(?:[-*•]\s+|\d+[.)]\s+)")
_DOCUMENT = "Document: "
_QUOTES = ('"', "“", "”", "'", "`", "*")


def decompose_prompt(question: str) -> str:
    """The prompt for a question's query triplets; ends in a line break, the triplets follow.

    The output is what `parse_query_triplets` reads.
    """
    return f"Question: {one_line(question)}\nTriplets:\n"


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


@dataclass(frozen=True)
class SubqueryInput:
    """What a sub-query is written from: a document (title, text) and what was asked before."""

    question: str
    title: str
    text: str
    earlier: tuple[str, ...] = ()


def subquery_writer_prompt(given: SubqueryInput) -> str:
    """The prompt of a trained writer (RAS App. C.2, Fig. 8, for a small model).

    Ends in a line break, the sub-query follows. Training data and callers make it here, so that a
    model is served what it was trained on. The document stands first: of several questions about
    one document a server computes it once.
    """
    lines = [
        f"{_DOCUMENT}{passage_text(given.title, given.text)}",
        f"Question: {one_line(given.question)}",
        *(f"Asked: {one_line(subquery)}" for subquery in given.earlier),
        "Sub-query:",
    ]
    return "\n".join(lines) + "\n"


def subquery_document(prompt: str) -> str:
    """The document of a prompt that `subquery_writer_prompt` made, title and text."""
    return prompt.split("\n", 1)[0].removeprefix(_DOCUMENT)


def read_subquery(text: str) -> str:
    """The text that a model wrote without a label, a list's number, quotes and stars around it.

    Never raises; several lines stay several, so that prose is known as such.
    """
    found = text.strip()
    for _ in range(3):  # a label in quotes behind a number
        found = _LABEL.sub("", _BULLET.sub("", found)).strip()
        if len(found) > 1 and found.startswith(_QUOTES) and found.endswith(_QUOTES):
            found = found[1:-1].strip()
    return found


def parse_subquery(text: str) -> str | None:
    """The sub-query that a model wrote: its first line with text, plan tags left out.

    None where nothing is left; never raises.
    """
    for line in text.splitlines():
        if subquery := read_subquery(strip_tags(line)):
            return subquery
    return None
