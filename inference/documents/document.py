"""A document as it is read: its text in blocks under their headings, with where each stands."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from common.errors import UserError

INSTALL = "Install what reads it: pip install 'trivium-rag[docs]'"
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
# Half of a character of UTF-16, or a byte of a name that is no UTF-8: UTF-8 can hold neither.
_SURROGATE = re.compile("[\ud800-\udfff]")


class UnreadableFileError(UserError, ValueError):
    """A file of which nothing can be read; the message says why and what to do."""


class MissingReaderError(UnreadableFileError):
    """A file of which nothing can be read as long as a library is not installed."""


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


def escaped(name: str) -> str:
    """Return a name as UTF-8 can hold it; what it cannot is spelt out, so that none become one."""
    return name.encode("utf-8", "backslashreplace").decode()


def encodable(document: Document) -> tuple[Document, int]:
    """Return a document as UTF-8 can hold it, and how many halves of characters were replaced.

    Places stay as they are: one character takes the place of one.
    """
    headings = [name for block in document.blocks for name in block.headings]
    texts = [block.text for block in document.blocks]
    broken = sum(len(_SURROGATE.findall(text)) for text in texts)
    if not broken and not any(map(_SURROGATE.search, [document.title, document.id, *headings])):
        return document, 0
    blocks = [
        replace(
            block,
            text=_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", block.text),
            headings=tuple(map(escaped, block.headings)),
        )
        for block in document.blocks
    ]
    title, own = escaped(document.title), escaped(document.id)
    return replace(document, title=title, id=own, blocks=blocks), broken


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
