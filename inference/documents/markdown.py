"""Markdown as blocks under their headings; HTML and DOCX are read by way of it."""

from collections.abc import Sequence
from itertools import accumulate, zip_longest

from markdown_it import MarkdownIt
from markdown_it.token import Token

from inference.documents.document import Block
from models.formats.planning import one_line

_PARSER = MarkdownIt("commonmark", {"html": False}).enable("table")


def markdown_blocks(text: str) -> list[Block]:
    """Return a text's paragraphs, list items, code and rows of tables, each under its headings.

    A row of a table is read as "column: cell" for each cell. Places are those of the lines that a
    block stands on.
    """
    lines = [0, *accumulate(len(line) for line in text.splitlines(keepends=True))]
    headings: dict[int, str] = {}
    columns: list[str] = []
    cells: list[str] = []
    found: list[Block] = []
    where = (0, 0)
    tokens = _PARSER.parse(text)
    for token, following in zip_longest(tokens, tokens[1:]):
        if token.map is not None:
            first, last = (min(line, len(lines) - 1) for line in token.map)
            where = (lines[first], lines[last])
        if token.type == "heading_open":
            level = int(token.tag[1:])
            headings = {own: title for own, title in headings.items() if own < level}
            headings[level] = _plain(following)
        elif token.type in ("fence", "code_block"):
            _add(found, token.content, where, headings)
        elif token.type == "paragraph_open":
            _add(found, _plain(following), where, headings)
        elif token.type in ("th_open", "td_open"):
            cells.append(_plain(following))
        elif token.type == "tr_close":
            if not columns:
                columns = cells
            else:
                _add(found, row_text(columns, cells), where, headings)
            cells = []
        elif token.type == "table_close":
            columns = []
    return found


def row_text(columns: Sequence[str], cells: Sequence[str]) -> str:
    """Return a table's row as a sentence: "column: cell" for each cell that is not empty."""
    named = [f"{c}: {v}" if c else v for c, v in zip(columns, cells, strict=False) if v]
    more = [cell for cell in cells[len(columns) :] if cell]
    return "; ".join([*named, *more]) + "." if named or more else ""


def _add(found: list[Block], text: str, where: tuple[int, int], headings: dict[int, str]) -> None:
    if text.strip():
        path = tuple(title for _, title in sorted(headings.items()) if title)
        found.append(Block(text, *where, path))


def _plain(token: Token | None) -> str:
    """Return an inline token's text without its marks."""
    if token is None:
        return ""
    parts = []
    for child in token.children or ():
        if child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif child.type in ("text", "code_inline", "image"):
            parts.append(child.content)
    return one_line("".join(parts))
