"""One sub-question a document: what a model that writes them reads, and how its text is read."""

import re
from dataclasses import dataclass

from models.formats.history import one_line
from models.formats.prompts import passage_text

SUBQUERY_WRITER_INSTRUCTION = """\
Write one question that the document answers and that helps to answer the main question. \
Do not ask again what was asked before."""
"""RAS Fig. 8 in two sentences, for a model that is trained to follow them."""

_DOCUMENT = "Document: "
_ASKED = "Asked before: "
_NOTHING = "(nothing)"
_QUESTION = "Main question: "
_LABEL = re.compile(
    r"^(?:(?:sub-?\s?(?:query|question)|query|question|output|answer)(?:\s*\d+)?"
    r"|(?:sure|certainly|of course|here)\b[^\n:?]{0,60})\s*:\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^(?:[-*•]\s+|\d+[.)]\s+)")
_QUOTES = ('"', "“", "”", "'", "`", "*")


@dataclass(frozen=True)
class SubqueryInput:
    """What a sub-question is written from: a document (title, text) and what was asked before."""

    question: str
    title: str
    text: str
    earlier: tuple[str, ...] = ()


def subquery_writer_prompt(given: SubqueryInput) -> str:
    """The prompt of a trained writer (RAS App. C.2); ends in a line break, the question follows.

    Training data and callers make it here, so that a model is served what it was trained on. The
    document stands first: of several questions about one document a server computes it once.
    """
    asked = " ".join(map(one_line, given.earlier)) or _NOTHING
    lines = [
        SUBQUERY_WRITER_INSTRUCTION,
        f"{_DOCUMENT}{passage_text(given.title, given.text)}",
        f"{_QUESTION}{one_line(given.question)}",
        f"{_ASKED}{asked}",
        "Question:",
    ]
    return "\n".join(lines) + "\n"


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
