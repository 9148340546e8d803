"""Files of many kinds as documents: what each kind's library reads, and why a file cannot be read.

PDF, HTML and DOCX need the extra `docs` (pypdf, trafilatura, mammoth).
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

from inference.documents.document import (
    INSTALL,
    Block,
    Document,
    MissingReaderError,
    UnreadableFileError,
    paragraphs,
)
from inference.documents.markdown import markdown_blocks, row_text
from inference.documents.pdf import pdf_document
from models.formats.planning import one_line

Reader = Callable[[Path], Iterable[Document]]
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of one file: one, or of JSON Lines one a record.

    Raises UnreadableFileError, which says why nothing can be read and what to do.
    """
    read = READERS.get(path.suffix.lower())
    if read is None:
        known = ", ".join(READERS)
        raise UnreadableFileError(f"of no known kind; convert it to one of {known}")
    yield from read(path)


def _text_file(path: Path) -> Iterator[Document]:
    text, notes = _decoded(path)
    yield Document(path.stem, list(paragraphs(text)), notes=notes)


def _decoded(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return a file's text, line ends as \\n, and what was replaced in it."""
    data = path.read_bytes()
    encoding = _BYTE_ORDER_MARKS.get(data[:2], "utf-8-sig")
    if encoding != "utf-16" and b"\0" in data:
        raise UnreadableFileError("holds binary data and no text; name it by its own kind")
    text = data.decode(encoding, errors="replace")
    broken = text.count("\N{REPLACEMENT CHARACTER}")
    note = f"{broken} characters that are no UTF-8 were replaced"
    return text.replace("\r\n", "\n").replace("\r", "\n"), (note,) if broken else ()


def _markdown_file(path: Path) -> Iterator[Document]:
    text, notes = _decoded(path)
    yield _of_markdown(path.stem, text, notes)


def _of_markdown(name: str, text: str, notes: tuple[str, ...] = (), title: str = "") -> Document:
    """Return a document called by its title, else by its only top heading, else by its file."""
    blocks = markdown_blocks(text)
    tops = {block.headings[0] for block in blocks if block.headings}
    if not title and len(tops) == 1 and all(block.headings for block in blocks):
        [title] = tops
    return Document(title or name, blocks, notes=notes)


def _html_file(path: Path) -> Iterator[Document]:
    try:
        import trafilatura
        from lxml import etree, html  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingReaderError(f"is HTML. {INSTALL}") from error
    text, notes = _decoded(path)
    found = trafilatura.extract(
        text, output_format="markdown", include_comments=False, favor_recall=True
    )
    if not found and text.strip():
        # A page of a few words is all boilerplate to trafilatura.
        with suppress(etree.ParserError):  # A page without an element, such as a comment alone.
            tree = html.fromstring(text)
            for element in list(tree.iter("script", "style", "noscript", "template")):
                element.drop_tree()
            found = "\n\n".join(map(one_line, tree.text_content().split("\n\n")))
    data = trafilatura.extract_metadata(text)
    yield _of_markdown(path.stem, found or "", notes, one_line((data and data.title) or ""))


def _docx_file(path: Path) -> Iterator[Document]:
    try:
        import mammoth  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingReaderError(f"is a DOCX document. {INSTALL}") from error
    try:
        with path.open("rb") as file:
            text = str(mammoth.convert_to_markdown(file).value)
    except MemoryError:
        raise
    except Exception as error:  # Of a broken file mammoth lets through whatever its parts raise.
        raise UnreadableFileError(
            f"is no whole DOCX document ({error}); was it cut off, or is it a DOC? Save it again"
        ) from error
    yield _of_markdown(path.stem, text)


def _pdf_file(path: Path) -> Iterator[Document]:
    yield pdf_document(path)


def _table_file(path: Path) -> Iterator[Document]:
    text, notes = _decoded(path)
    try:
        dialect: Any = csv.Sniffer().sniff(text[:8192], ",;\t|")
    except csv.Error:
        dialect = csv.excel_tab if path.suffix.lower() == ".tsv" else csv.excel
    blocks, columns, start = [], list[str](), 0
    rows = csv.reader(io.StringIO(text), dialect)
    lines = [0, *accumulate(len(line) for line in text.splitlines(keepends=True))]
    try:
        for row in rows:
            end = lines[min(rows.line_num, len(lines) - 1)]
            cells = list(map(one_line, row))
            if not columns:
                columns = cells
            elif told := row_text(columns, cells):
                blocks.append(Block(told, start, end))
            start = end
    except csv.Error as error:
        raise UnreadableFileError(
            f"line {rows.line_num} is no row of a table ({error}); write it as CSV"
        ) from error
    yield Document(path.stem, blocks, notes=notes)


def _records_file(path: Path) -> Iterator[Document]:
    text, notes = _decoded(path)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _record(line, number, path, notes)
            notes = ()  # of the file, told once


def _record(line: str, number: int, path: Path, notes: tuple[str, ...]) -> Document:
    """Return the document of one record: `text`, and where they are given `title` and `id`."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UnreadableFileError(f"line {number} is no JSON ({error})") from error
    text = record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise UnreadableFileError(
            f'line {number} holds no text; write {{"title": "...", "text": "..."}}'
        )
    title, own = record.get("title") or f"{path.stem} {number}", record.get("id") or ""
    return Document(one_line(str(title)), list(paragraphs(text)), id=str(own), notes=notes)


READERS: dict[str, Reader] = {
    ".txt": _text_file,
    ".md": _markdown_file,
    ".markdown": _markdown_file,
    ".html": _html_file,
    ".htm": _html_file,
    ".pdf": _pdf_file,
    ".docx": _docx_file,
    ".csv": _table_file,
    ".tsv": _table_file,
    ".jsonl": _records_file,
}
