"""Long documents as overlapping chunks of whole sentences (TH-RAG App. B)."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from models.formats.history import one_line

# Not behind an initial ("D. Goel") or a title; behind it begins a word without a small letter.
_SENTENCE_END = re.compile(
    r"(?:(?<!\b[A-Z])(?<!\b(?:Jr|Sr|St|Dr|Mr|vs|No))(?<!\bMrs)\.|[!?])[\"”')\]]*\s+"
    r"(?=[\"“'(\[]*[^\W_a-zà-öø-ÿ])"
    r"|(?<=[。！？])"
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text on one line each, nothing left out."""
    folded = one_line(text)
    ends = [match.end() for match in _SENTENCE_END.finditer(folded)]
    borders = [0, *ends, len(folded)]
    parts = (folded[start:end].strip() for start, end in pairwise(borders))
    return [part for part in parts if part]


def chunk_text(
    text: str, max_tokens: int, overlap: int, count_tokens: Callable[[str], int]
) -> list[str]:
    """Chunks of at most `max_tokens`, each beginning with up to `overlap` tokens of the one before.

    A sentence is never cut: one that is longer is a chunk by itself. Blank text is one empty chunk.
    """
    # A token is at least a byte.
    if len(text.encode()) <= max_tokens or count_tokens(text) <= max_tokens:
        return [text.strip()]
    sentences = split_sentences(text)
    sizes = [count_tokens(sentence) for sentence in sentences]
    chunks, start = [], 0
    while start < len(sentences):
        end = _reach(sizes, start, max_tokens)
        chunks.append(" ".join(sentences[start:end]))
        if end == len(sentences):
            break
        start = max(_reach_back(sizes, end, overlap), start + 1)
    return chunks


def _reach(sizes: Sequence[int], start: int, most: int) -> int:
    """The first place after `start` where the sum of sizes would exceed `most`; at least one on."""
    end, total = start + 1, sizes[start]
    while end < len(sizes) and total + sizes[end] <= most:
        total += sizes[end]
        end += 1
    return end


def _reach_back(sizes: Sequence[int], end: int, most: int) -> int:
    """The place before `end` from where the sizes sum to no more than `most`."""
    start, total = end, 0
    while start > 0 and total + sizes[start - 1] <= most:
        start -= 1
        total += sizes[start]
    return start
