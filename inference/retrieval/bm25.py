"""Word-based retrieval with bm25s (Lù 2024), English stemming and stop words."""

from __future__ import annotations

import logging
import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

# bm25s tries JAX where it is installed, which would take three quarters of a GPU's memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import bm25s
import numpy as np
import Stemmer

from common.files import atomic_directory
from inference.retrieval.passages import (
    EmptyCorpusError,
    Hit,
    Passage,
    check_meta,
    clean_queries,
    corpus_fingerprint,
    require_passages,
    top_hits,
    write_meta,
)

# Importing it turns its debug lines on.
logging.getLogger("bm25s").setLevel(logging.WARNING)
# Passages whose words are strings at a time, while an index is built.
AT_ONCE = 16384


def tokenize(texts: Sequence[str], stemmed: bool = True) -> list[list[str]]:
    """Return each text's lower-case words of two letters or more, without stop words, stemmed.

    stemmed: false where the data builders simulate retrieval, whose built files it would change.
    """
    # A stemmer holds state and searches may run in threads: one a call.
    tokens = bm25s.tokenize(
        list(texts),
        stopwords="en",
        stemmer=Stemmer.Stemmer("english") if stemmed else None,
        return_ids=False,
        show_progress=False,
    )
    return list(tokens)


def indexed_text(passage: Passage, title_weight: int) -> str:
    """Return the indexed text: the title `title_weight` times, then the text."""
    return " ".join([passage.title] * title_weight + [passage.text])


def tokenized(passages: Sequence[Passage], title_weight: int) -> Iterator[list[list[str]]]:
    """Yield the words of the passages' indexed texts, so many passages at a time."""
    for start in range(0, len(passages), AT_ONCE):
        part = passages[start : start + AT_ONCE]
        yield tokenize([indexed_text(passage, title_weight) for passage in part])


def word_numbers(
    passages: Sequence[Passage], title_weight: int, vocabulary: dict[str, int]
) -> list[array[int]]:
    """Return each passage's words as numbers of four bytes; new ones go into the vocabulary."""
    return [
        array("I", [vocabulary.setdefault(word, len(vocabulary)) for word in words])
        for part in tokenized(passages, title_weight)
        for words in part
    ]


def index_of(words: Sequence[list[str]] | bm25s.tokenization.Tokenized) -> bm25s.BM25:
    """Return an index of texts that are given by their words."""
    index = bm25s.BM25()
    index.index(words, show_progress=False)
    return index


def _built(passages: Sequence[Passage], title_weight: int) -> bm25s.BM25:
    vocabulary: dict[str, int] = {}
    numbers = word_numbers(passages, title_weight, vocabulary)
    if not vocabulary:
        raise EmptyCorpusError(
            f"no word to search by in the {len(passages)} passages of the corpus: all are stop "
            "words, single letters or signs. Search it with --retriever dense, or name another "
            "corpus"
        )
    return index_of(bm25s.tokenization.Tokenized(ids=numbers, vocab=vocabulary))


class Bm25Retriever:
    """BM25 (Lucene's variant, k1 1.5, b 0.75) over titles and texts."""

    def __init__(
        self,
        passages: Sequence[Passage],
        title_weight: int = 1,
        index: bm25s.BM25 | None = None,
    ) -> None:
        """Index `passages`; `index` is a loaded one, see `load`.

        title_weight: how often the title counts; 2 favours passages about the query's entity.

        Raises EmptyCorpusError for a corpus without a passage, or without a word to search by.
        """
        self.passages = require_passages(passages)
        self.title_weight = title_weight
        self.index = _built(self.passages, title_weight) if index is None else index
        # The library's own searches alone look at it, and it is as large as the vocabulary.
        self.index.unique_token_ids_set = set()

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return the best passages a query; one that shares no word with the query is no hit."""
        tokens = tokenize(clean_queries(queries)) if queries else []
        return [self._search_one(words, top_k) for words in tokens]

    def _search_one(self, words: list[str], top_k: int) -> list[Hit]:
        known = [word for word in words if word in self.index.vocab_dict]
        if not known:
            return []
        scores = np.asarray(self.index.get_scores(known))
        return [hit for hit in top_hits(self.passages, scores, top_k) if hit.score > 0]

    def _meta(self) -> dict[str, object]:
        return {
            "kind": "bm25",
            "passages": len(self.passages),
            "corpus_sha256": corpus_fingerprint(self.passages),
            "title_weight": self.title_weight,
        }

    def save(self, folder: str | Path) -> None:
        """Write the index and what it was built from, whole or not at all."""
        with atomic_directory(folder) as target:
            self.index.save(target, show_progress=False)
            write_meta(target, self._meta())

    @classmethod
    def load(
        cls, folder: str | Path, passages: Sequence[Passage], title_weight: int = 1
    ) -> Bm25Retriever:
        """Load what `save` wrote; raises IndexMismatchError when the corpus is another.

        The matrix is memory-mapped, the vocabulary is read.
        """
        empty = cls.__new__(cls)
        empty.passages, empty.title_weight = require_passages(passages), title_weight
        check_meta(Path(folder), empty._meta())
        index = bm25s.BM25.load(folder, load_corpus=False, mmap=True, show_progress=False)
        return cls(passages, title_weight, index=index)
