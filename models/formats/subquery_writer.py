"""What the sub-query writer reads and writes (RAS App. C.2, Fig. 8, for a small model)."""

import re
from collections.abc import Sequence

from models.formats.history import one_line
from models.formats.plan import strip_tags
from models.formats.prompts import passage_text

_BEFORE = re.compile(r"^(?:[-*•]\s+|(?:sub-?query|question)\s*:\s*)+", re.IGNORECASE)
_QUOTED = re.compile(r"^([\"'`“*]+)(?P<inside>[^\"'`“”*]+)[\"'`”*]+$")


def subquery_prompt(question: str, title: str, text: str, earlier: Sequence[str]) -> str:
    """The prompt for the next sub-query: the one that this document answers.

    title, text: of the document; the title may be empty. earlier: the sub-queries before, in order.
    Ends in a line break, the sub-query follows.
    """
    lines = [
        f"Document: {passage_text(title, text)}",
        f"Question: {one_line(question)}",
        *(f"Asked: {one_line(subquery)}" for subquery in earlier),
        "Sub-query:",
    ]
    return "\n".join(lines) + "\n"


def parse_subquery(text: str) -> str | None:
    """The sub-query that a model wrote: its first line with text; never raises.

    Plan tags, a bullet, a heading and quotation marks around all of it are left out. None where
    nothing is left.
    """
    for line in text.splitlines():
        words = _BEFORE.sub("", strip_tags(line))
        quoted = _QUOTED.match(words)
        subquery = (quoted["inside"] if quoted else words).strip()
        if subquery:
            return subquery
    return None
