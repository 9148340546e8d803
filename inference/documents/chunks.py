"""Documents as passages: whole sentences within a budget of tokens, never across a heading."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from inference.documents.document import Block, Document
from models.facts.grounding import sentence_ends
from models.formats.passages import HEADING_BORDER
from models.formats.planning import one_line

CountTokens = Callable[[str], int]


@dataclass(frozen=True)
class Chunk:
    """A passage and where it stands in its document.

    id: of its content. page: from 1; None where there are no pages. start, end: characters of the
    document's source text.
    """

    id: str
    title: str
    text: str
    page: int | None
    start: int
    end: int


@dataclass(frozen=True)
class _Piece:
    """A sentence with its place and length."""

    text: str
    start: int
    end: int
    tokens: int


def chunks_of(document: Document, max_tokens: int, count_tokens: CountTokens) -> list[Chunk]:
    """Return a document's passages, each of at most `max_tokens`.

    A sentence stays whole unless it is longer than that by itself; then it is cut between words.
    The title is the document's and the headings above.
    """
    found: list[Chunk] = []
    for headings, blocks in groupby(document.blocks, key=lambda block: block.headings):
        pieces = [p for block in blocks for p in _pieces(block, max_tokens, count_tokens)]
        for part in _packed(pieces, max_tokens):
            title = heading_path(document.title, headings)
            text = " ".join(piece.text for piece in part)
            start, end = part[0].start, part[-1].end
            name = document.id if document.id and not found else content_id(title, text)
            found.append(Chunk(name, title, text, document.page_of(start), start, end))
    return found


def heading_path(title: str, headings: Sequence[str]) -> str:
    """Return a document's title and the headings below it, none twice in a row."""
    path = [title, *headings]
    kept = [name for before, name in pairwise(["", *path]) if name and name != before]
    return HEADING_BORDER.join(kept)


def content_id(title: str, text: str) -> str:
    """Return an id that a passage has as long as it says the same."""
    return hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16]


def _pieces(block: Block, max_tokens: int, count_tokens: CountTokens) -> Iterator[_Piece]:
    start = 0
    for end in sentence_ends(block.text):
        sentence = one_line(block.text[start:end])
        place = block.start + start, block.start + end
        where = place if block.is_source else (block.start, block.end)
        if sentence:
            for part in _within(sentence, max_tokens, count_tokens):
                # With the space that joins it to what stands before.
                yield _Piece(part, *where, count_tokens(f" {part}"))
        start = end


def _within(sentence: str, max_tokens: int, count_tokens: CountTokens) -> Iterator[str]:
    """Yield a sentence, in pieces of words where it is longer than the budget."""
    # A token is at least a byte, and a character of several tokens cannot be cut.
    if (
        len(sentence) == 1
        or len(sentence.encode()) <= max_tokens
        or count_tokens(sentence) <= max_tokens
    ):
        yield sentence
        return
    words = sentence.split()
    if len(words) == 1:
        middle = len(sentence) // 2
        halves = sentence[:middle], sentence[middle:]
    else:
        middle = len(words) // 2
        halves = " ".join(words[:middle]), " ".join(words[middle:])
    for half in halves:
        yield from _within(half, max_tokens, count_tokens)


def _packed(pieces: Sequence[_Piece], max_tokens: int) -> Iterator[list[_Piece]]:
    part: list[_Piece] = []
    used = 0
    for piece in pieces:
        if part and used + piece.tokens > max_tokens:
            yield part
            part, used = [], 0
        part.append(piece)
        used += piece.tokens
    if part:
        yield part
