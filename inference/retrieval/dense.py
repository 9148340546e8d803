"""Meaning-based retrieval: a sentence encoder and a faiss index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from common.files import atomic_directory
from inference.retrieval.passages import (
    Hit,
    Passage,
    check_meta,
    clean_queries,
    corpus_fingerprint,
    require_passages,
    write_meta,
)
from models.files.sentence_encoder import SentenceEncoder
from models.formats.prompts import passage_text

INDEX_FILE = "index.faiss"
HNSW_LINKS = 32
HNSW_BUILD_EFFORT = 200
HNSW_SEARCH_EFFORT = 128


def build_index(vectors: np.ndarray, approximate: bool) -> Any:
    """Return an inner-product index of `vectors` float32 [n, d]: exact, or HNSW for large
    corpora.
    """
    dimension = vectors.shape[1]
    index: Any = faiss.IndexFlatIP(dimension)
    if approximate:
        index = faiss.IndexHNSWFlat(dimension, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = HNSW_BUILD_EFFORT
    index.add(np.ascontiguousarray(vectors, dtype=np.float32))
    return index


class DenseRetriever:
    """Cosine similarity between query and "title: text" under one sentence encoder."""

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: SentenceEncoder,
        approximate: bool = False,
        index: Any = None,
    ) -> None:
        """Embed and index `passages`; `index` is a loaded one, see `load`."""
        self.passages = require_passages(passages)
        self.encoder = encoder
        self.approximate = approximate
        if index is None:
            texts = [passage_text(passage.title, passage.text) for passage in self.passages]
            index = build_index(encoder.encode(texts), approximate)
        if approximate:
            index.hnsw.efSearch = HNSW_SEARCH_EFFORT
        self.index = index

    def add(self, passages: Sequence[Passage]) -> None:
        """Embed and index further passages behind those that are there."""
        if passages:
            texts = [passage_text(passage.title, passage.text) for passage in passages]
            vectors = self.encoder.encode(texts)
            self.index.add(np.ascontiguousarray(vectors, dtype=np.float32))
            self.passages.extend(passages)

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return best passages a query by cosine similarity; all queries are embedded in one
        call.
        """
        top_k = min(top_k, len(self.passages))
        if not queries or top_k <= 0:
            return [[] for _ in queries]
        vectors = self.encoder.encode(clean_queries(queries))
        scores, rows = self.index.search(np.ascontiguousarray(vectors, dtype=np.float32), top_k)
        return [self._hits(*found) for found in zip(scores, rows, strict=True)]

    def _hits(self, scores: np.ndarray, rows: np.ndarray) -> list[Hit]:
        # faiss fills up with row -1 when an approximate search finds fewer.
        order = [place for place in np.lexsort((rows, -scores)) if rows[place] >= 0]
        return [Hit(self.passages[rows[place]], float(scores[place])) for place in order]

    def _meta(self) -> dict[str, object]:
        return {
            "kind": "dense",
            "encoder": self.encoder.name,
            "encoder_fingerprint": self.encoder.fingerprint,
            "approximate": self.approximate,
            "passages": len(self.passages),
            "corpus_sha256": corpus_fingerprint(self.passages),
        }

    def save(self, folder: str | Path) -> None:
        """Write `index.faiss` and `meta.json`, whole or not at all."""
        with atomic_directory(folder) as target:
            faiss.write_index(self.index, str(target / INDEX_FILE))
            write_meta(target, self._meta())

    @classmethod
    def load(
        cls,
        folder: str | Path,
        passages: Sequence[Passage],
        encoder: SentenceEncoder,
        approximate: bool = False,
    ) -> DenseRetriever:
        """Load what `save` wrote.

        Raises IndexMismatchError, naming both, when it was built with another encoder or over
        another corpus.
        """
        empty = cls.__new__(cls)
        empty.passages, empty.encoder = require_passages(passages), encoder
        empty.approximate = approximate
        check_meta(Path(folder), empty._meta())
        index = faiss.read_index(str(Path(folder) / INDEX_FILE))
        return cls(passages, encoder, approximate, index=index)
