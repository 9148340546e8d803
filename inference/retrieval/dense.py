"""Meaning-based retrieval: a sentence encoder and an index of its vectors."""

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
from models.files.sentence_encoder import FloatArray, SentenceEncoder
from models.formats.prompts import passage_text

INDEX_FILE = "index.faiss"


class VectorIndex:
    """Vectors [n, d] of length 1, searched exactly by cosine similarity.

    Rows are numbered as they are added. Nothing is taken out: who replaces a document keeps its
    vectors beside the document, as the hierarchy does, and builds from what is left.
    """

    def __init__(self, dimension: int) -> None:
        self._index: Any = faiss.IndexFlatIP(dimension)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: FloatArray) -> None:
        """Add vectors [n, d] behind those that are there."""
        self._index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def search(self, vectors: FloatArray, depth: int) -> list[list[tuple[int, float]]]:
        """Return for each vector [n, d] the closest rows with their similarity, best first.

        Equal ones come in the order of their rows. No more than `depth`.
        """
        depth = min(depth, len(self))
        if depth <= 0 or not len(vectors):
            return [[] for _ in vectors]
        found = self._index.search(np.ascontiguousarray(vectors, dtype=np.float32), depth)
        return [
            [(int(r[place]), float(s[place])) for place in np.lexsort((r, -s))]
            for s, r in zip(*found, strict=True)
        ]

    def save(self, file: Path) -> None:
        """Write the index."""
        faiss.write_index(self._index, str(file))

    @classmethod
    def load(cls, file: Path) -> VectorIndex:
        """Return what `save` wrote."""
        index = cls.__new__(cls)
        index._index = faiss.read_index(str(file))
        return index


class DenseRetriever:
    """Cosine similarity between query and "title: text" under one sentence encoder."""

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: SentenceEncoder,
        index: VectorIndex | None = None,
    ) -> None:
        """Embed and index `passages`; `index` is a loaded one, see `load`."""
        self.passages: list[Passage] = []
        self.encoder = encoder
        if index is None:
            self.index = VectorIndex(encoder.dimension)
            self.add(require_passages(passages))
        else:
            self.index, self.passages = index, require_passages(passages)

    def add(self, passages: Sequence[Passage]) -> None:
        """Embed and index further passages behind those that are there."""
        if passages:
            texts = [passage_text(passage.title, passage.text) for passage in passages]
            self.index.add(self.encoder.encode(texts))
            self.passages.extend(passages)

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return the best passages a query by cosine similarity; queries are embedded at once."""
        if not queries or top_k <= 0:
            return [[] for _ in queries]
        rankings = self.index.search(self.encoder.encode(clean_queries(queries)), top_k)
        return [[Hit(self.passages[row], score) for row, score in found] for found in rankings]

    def _meta(self) -> dict[str, object]:
        return {
            "kind": "dense",
            "encoder": self.encoder.name,
            "encoder_fingerprint": self.encoder.fingerprint,
            "passages": len(self.passages),
            "corpus_sha256": corpus_fingerprint(self.passages),
        }

    def save(self, folder: str | Path) -> None:
        """Write `index.faiss` and `meta.json`, whole or not at all."""
        with atomic_directory(folder) as target:
            self.index.save(target / INDEX_FILE)
            write_meta(target, self._meta())

    @classmethod
    def load(
        cls, folder: str | Path, passages: Sequence[Passage], encoder: SentenceEncoder
    ) -> DenseRetriever:
        """Load what `save` wrote.

        Raises IndexMismatchError, naming both, when it was built with another encoder or over
        another corpus.
        """
        empty = cls.__new__(cls)
        empty.passages, empty.encoder = require_passages(passages), encoder
        check_meta(Path(folder), empty._meta())
        return cls(passages, encoder, VectorIndex.load(Path(folder) / INDEX_FILE))
