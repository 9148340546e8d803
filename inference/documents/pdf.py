"""PDF files: the text of their pages, and the headings that their outline names."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.documents.document import (
    INSTALL,
    Block,
    Document,
    MissingReaderError,
    UnreadableFileError,
    paragraphs,
)
from models.formats.planning import one_line

if TYPE_CHECKING:
    from pypdf import PdfReader

logger = logging.getLogger(__name__)
_PAGE_NUMBER = re.compile(r"^\s*(?:page\s+)?\d{1,4}(?:\s*(?:/|of)\s*\d{1,4})?\s*$", re.IGNORECASE)
_BROKEN_WORD = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
# The number of a section, which an outline may leave out or have alone.
_SECTION_NUMBER = re.compile(r"^(?:[0-9]+(?:\.[0-9]+)*|[A-Z]|[IVX]+)[.)]?\s+")


@dataclass(frozen=True)
class Heading:
    """An entry of an outline: its level from 0, its page from 0."""

    level: int
    title: str
    page: int


def pdf_document(path: Path) -> Document:
    """Return a PDF's text, in paragraphs under the headings of its outline that stand in it.

    Raises UnreadableFileError.
    """
    try:
        import pypdf
        from pypdf.errors import DependencyError
    except ImportError as error:
        raise MissingReaderError(f"is a PDF. {INSTALL}") from error
    try:
        pdf = pypdf.PdfReader(path)
        if pdf.is_encrypted and not pdf.decrypt(""):
            raise UnreadableFileError("needs a password; save it without one")
        pages = [_page_text(page.extract_text()) for page in pdf.pages]
        title = one_line((pdf.metadata and pdf.metadata.title) or "")
    except (UnreadableFileError, MemoryError):
        raise
    except DependencyError as error:
        raise MissingReaderError(
            f"needs a library that is not installed ({error}). If it is encrypted: pip install "
            "'pypdf[crypto]', or save it without a password"
        ) from error
    except Exception as error:  # Of a broken file pypdf lets through whatever its parts raise.
        raise UnreadableFileError(
            f"is no whole PDF ({type(error).__name__}: {error}); was it cut off? Save it again"
        ) from error
    if not any(map(str.strip, pages)):
        raise UnreadableFileError("has pages without text, such as scans; recognise its text first")
    starts = [0, *accumulate(len(page) for page in pages)][:-1]
    blocks = list(blocks_under(headings_of(pdf, path), pages, starts))
    return Document(title or path.stem, blocks, starts)


def headings_of(pdf: PdfReader, path: Path) -> list[Heading]:
    """Return the entries of a PDF's outline in order; none where it cannot be read."""
    try:
        return list(_entries(pdf, pdf.outline, 0))
    except Exception as error:
        # An outline is a help for readers, and many programs write a broken one.
        logger.warning("%s: its outline cannot be read (%s), so it has no headings", path, error)
        return []


def _entries(pdf: PdfReader, outline: Sequence[Any], level: int) -> Iterator[Heading]:
    for entry in outline:
        if isinstance(entry, list):
            yield from _entries(pdf, entry, level + 1)
            continue
        page = pdf.get_destination_page_number(entry)
        if page is not None and one_line(entry.title or ""):
            yield Heading(level, one_line(entry.title), page)


def blocks_under(
    headings: Sequence[Heading], pages: Sequence[str], starts: Sequence[int]
) -> Iterator[Block]:
    """Yield the paragraphs of all pages, each under its headings.

    starts: of each page in the whole text. A heading that no line of its page says is left out.
    """
    text, path, begin = "".join(pages), list[str](), 0
    for heading in headings:
        place = _place_of(heading.title, pages[heading.page])
        if place is None or starts[heading.page] + place[0] < begin:
            continue
        yield from _section(text, begin, starts[heading.page] + place[0], path)
        begin = starts[heading.page] + place[1]
        path = [*path[: heading.level], *[""] * (heading.level - len(path)), heading.title]
    yield from _section(text, begin, len(text), path)


def _section(text: str, start: int, end: int, path: Sequence[str]) -> Iterator[Block]:
    for block in paragraphs(text[start:end], start):
        yield replace(block, headings=tuple(path))


def _place_of(title: str, page: str) -> tuple[int, int] | None:
    """Return where the line, or the two lines, of a page stand that say a title."""
    wanted, lines = _bare(title), page.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    for length in (1, 2):
        for first in range(len(lines) - length + 1):
            if _bare("".join(lines[first : first + length])) == wanted:
                return starts[first], starts[first + length]
    return None


def _bare(text: str) -> str:
    """Return a title as it is compared: in one line, without a section's number."""
    return _SECTION_NUMBER.sub("", one_line(text)).casefold()


def _page_text(text: str) -> str:
    """Return a page's text without its number, words broken at a line's end joined."""
    lines = [line for line in text.split("\n") if not _PAGE_NUMBER.match(line)]
    return _BROKEN_WORD.sub("", "\n".join(lines)).rstrip() + "\n"
