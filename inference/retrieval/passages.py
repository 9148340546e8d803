"""The corpus, the part of it that questions come with, and what every retriever takes and gives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from common.errors import UserError
from common.files import atomic_write
from models.formats.planning import strip_tags
from models.formats.records import PassageRecord, QuestionRecord, read_records

Passage = PassageRecord
Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating]
META_FILE = "meta.json"
# In a folder of indexes; the last is the dense one of the corpus as it was before, to grow from.
BM25, DENSE, EARLIER = "bm25", "dense", "earlier"
DESCRIPTIVE_FIELDS = ("encoder",)
SHA256_BITS = 256


class EmptyCorpusError(UserError, ValueError):
    """A corpus without a passage; the message names the file."""


class IndexMismatchError(UserError, ValueError):
    """A saved index that belongs to another corpus or encoder; the message names both."""


@dataclass(frozen=True)
class Hit:
    """A passage found for a query; scores of one retriever compare, those of two do not."""

    passage: Passage
    score: float


class Retriever(Protocol):
    """Finds passages for queries."""

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """At most `top_k` hits a query, best first; equal scores stand in corpus order."""
        ...


def load_corpus(path: str | Path) -> list[Passage]:
    """Read a corpus in the JSON Lines contract (`id, title, text`).

    Raises RecordError (file, line, field) for a record that breaks it and EmptyCorpusError for
    a file that holds none.
    """
    passages = list(read_records(path, PassageRecord))
    if not passages:
        raise empty_corpus(path)
    return passages


def empty_corpus(path: str | Path) -> EmptyCorpusError:
    """Return the error about a corpus file that holds no passage."""
    return EmptyCorpusError(
        f"{path}: the corpus holds no passage. "
        "Give a JSON Lines file with one {id, title, text} a line."
    )


def require_passages(passages: Sequence[Passage]) -> Sequence[Passage]:
    """Return the passages; raises EmptyCorpusError when there is none to search."""
    if not passages:
        raise EmptyCorpusError("the corpus holds no passage; there is nothing to search")
    return passages


def clean_queries(queries: Sequence[str]) -> list[str]:
    """Return queries without plan tags and folded to one line: a retriever never sees `[SUBQ]`."""
    return [strip_tags(query) for query in queries]


def passage_content(passage: Passage) -> bytes:
    """Return what a corpus's hashes are made from: id, title and text."""
    return json.dumps([passage.id, passage.title, passage.text]).encode()


def corpus_fingerprint(passages: Iterable[Passage]) -> str:
    """Return sha256 over ids, titles and texts in order; it tells one corpus from another.

    A corpus that knows its own, as a mapped one does, is not read.
    """
    known = getattr(passages, "fingerprint", None)
    if isinstance(known, str):
        return known
    digest = hashlib.sha256()
    for passage in passages:
        digest.update(passage_content(passage))
    return digest.hexdigest()


def contents_sum(passages: Iterable[Passage], known: str = "0", sign: int = 1) -> str:
    """Return the sum of the passages' sha256 in hexadecimal: the same in whatever order they come.

    known: a sum that theirs is added to, or with `sign` -1 taken from.
    """
    total = int(known, 16)
    for passage in passages:
        total += sign * int.from_bytes(hashlib.sha256(passage_content(passage)).digest())
    return f"{total % (1 << SHA256_BITS):064x}"


def best_rows(scores: Scores, most: int, rows: Rows | None = None) -> list[int]:
    """Return the rows with the highest scores, of all or of `rows`, best first, else in order."""
    own = scores if rows is None else scores[rows]
    if len(own) > most:
        top = np.flatnonzero(own >= np.partition(own, len(own) - most)[len(own) - most])
    else:
        top = np.arange(len(own))
    order = top[np.argsort(-own[top], kind="stable")][:most]
    return [int(place if rows is None else rows[place]) for place in order]


def top_hits(passages: Sequence[Passage], scores: Scores, top_k: int) -> list[Hit]:
    """Return the best `top_k` of `scores` [n passages]; ties go to the passage that comes first."""
    best = best_rows(scores, top_k) if top_k > 0 else []
    return [Hit(passages[row], float(scores[row])) for row in best]


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Write what an index was built from, next to it."""
    with atomic_write(folder / META_FILE) as handle:
        json.dump(meta, handle, indent=1)


def check_meta(folder: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """Compare an index's meta.json with what is to be searched now, and return it.

    Names that only describe (`encoder`) need not agree where the fingerprints do. Raises
    IndexMismatchError naming the folder, what differs, both sides and the remedy.
    """
    path = folder / META_FILE
    try:
        meta: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise IndexMismatchError(f"{path}: not a readable index ({error}). Rebuild it.") from error
    refuse_differing(str(folder), meta, expected, "name another index folder")
    return meta


def refuse_differing(
    place: str, meta: dict[str, Any], expected: dict[str, Any], remedy: str
) -> None:
    """Raise IndexMismatchError where an index was not made as expected; see `check_meta`."""
    differing = [
        field
        for field, value in expected.items()
        if field not in DESCRIPTIVE_FIELDS and meta.get(field) != value
    ]
    if differing:
        raise IndexMismatchError(
            f"{place}: this index differs in {', '.join(differing)}. It was built with "
            f"({_describe(meta)}), and asked for is ({_describe(expected)}). "
            f"Rebuild it, or {remedy}."
        )


def _describe(meta: dict[str, Any]) -> str:
    return ", ".join(f"{field} {str(value)[:24]}" for field, value in meta.items())


def documents_of_questions(
    corpus: Iterable[Passage], path: Path, limit: int | None = None
) -> list[Passage]:
    """Return the passages that stand in the contexts of the first `limit` questions, spacing aside.

    Raises:
        EmptyCorpusError: none does.
        RecordError: a question that cannot be read, with file, line and field.
    """
    wanted = {
        _letters(title, *sentences)
        for record in islice(read_records(path, QuestionRecord), limit)
        for title, sentences in record.context
    }
    documents = [passage for passage in corpus if _letters(passage.title, passage.text) in wanted]
    if not documents:
        raise EmptyCorpusError(
            f"no passage of the corpus stands in a context of {path}: name its questions' corpus"
        )
    return documents


def _letters(*texts: str) -> str:
    return "".join("".join(texts).split())
