"""One sub-query a document: what a model that writes them reads, and how its text is read."""

import re
from dataclasses import dataclass

from models.formats.history import one_line
from models.formats.plan import strip_tags
from models.formats.prompts import passage_text

_LABEL = re.compile(
    r"^(?:(?:sub-?\s?(?:query|question)|query|question|output|answer)(?:\s*\d+)?"
    r"|(?:sure|certainly|of course|here)\b[^\n:?]{0,60})\s*:\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^(?:[-*•]\s+|\d+[.)]\s+)")
_DOCUMENT = "Document: "
_QUOTES = ('"', "“", "”", "'", "`", "*")


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
