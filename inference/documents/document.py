"""A document as it is read: its text in blocks under their headings, with where each stands."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from common.errors import UserError

INSTALL = "Install what reads it: pip install 'trivium-rag[docs]'"
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")


class UnreadableFileError(UserError, ValueError):
    """A file of which nothing can be read; the message says why and what to do."""


@dataclass(frozen=True)
class Block:
    """A paragraph, a table's row, or a whole text without structure.

    headings: those above it, the outermost first. start, end: characters of the document's source
    text. is_source: whether `text` is the source between these, so that places within it are too.
    """

    text: str
    start: int
    end: int
    headings: tuple[str, ...] = ()
    is_source: bool = False


@dataclass(frozen=True)
class Document:
    """One file's or record's text.

    page_starts: for each page the character of the source text with which it begins; empty for
    what has no pages. id: its own, where it brought one. notes: what was left out or replaced.
    """

    title: str
    blocks: list[Block]
    page_starts: list[int] = field(default_factory=list)
    id: str = ""
    notes: tuple[str, ...] = ()

    def page_of(self, place: int) -> int | None:
        """Return the page, from 1, of a character; None where there are no pages."""
        return bisect_right(self.page_starts, place) if self.page_starts else None


def paragraphs(text: str, offset: int = 0) -> Iterator[Block]:
    """Yield the paragraphs of a plain text, between blank lines.

    offset: of the text in the document's source.
    """
    start = 0
    for border in [*_BLANK_LINE.finditer(text), None]:
        end = border.start() if border else len(text)
        if text[start:end].strip():
            yield Block(text[start:end], offset + start, offset + end, is_source=True)
        start = border.end() if border else end
