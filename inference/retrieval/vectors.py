"""Vectors by row, added and searched: the one place that knows which library searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from models.files.sentence_encoder import FloatArray

HNSW_LINKS = 32
HNSW_BUILD_EFFORT = 200
HNSW_SEARCH_EFFORT = 128


class VectorIndex:
    """Vectors [n, d] of length 1 under cosine similarity, exactly or, for large corpora, by HNSW.

    Rows are numbered as they are added. Nothing is taken out: who replaces a document keeps its
    vectors beside the document, as the hierarchy does, and builds from what is left.
    """

    def __init__(self, dimension: int, approximate: bool = False) -> None:
        self._index: Any = faiss.IndexFlatIP(dimension)
        if approximate:
            self._index = faiss.IndexHNSWFlat(dimension, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
            self._index.hnsw.efConstruction = HNSW_BUILD_EFFORT
            self._index.hnsw.efSearch = HNSW_SEARCH_EFFORT

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: FloatArray) -> None:
        """Add vectors [n, d] behind those that are there."""
        self._index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def search(self, vectors: FloatArray, depth: int) -> list[list[tuple[int, float]]]:
        """Return for each vector [n, d] the closest rows with their similarity, best first.

        Equal ones come in the order of their rows. No more than `depth`, fewer where an approximate
        search finds fewer.
        """
        depth = min(depth, len(self))
        if depth <= 0 or not len(vectors):
            return [[] for _ in vectors]
        found = self._index.search(np.ascontiguousarray(vectors, dtype=np.float32), depth)
        return [
            # faiss fills up with row -1.
            [(int(r[place]), float(s[place])) for place in np.lexsort((r, -s)) if r[place] >= 0]
            for s, r in zip(*found, strict=True)
        ]

    def save(self, file: Path) -> None:
        """Write the index."""
        faiss.write_index(self._index, str(file))

    @classmethod
    def load(cls, file: Path, approximate: bool = False) -> VectorIndex:
        """Return what `save` wrote."""
        index = cls.__new__(cls)
        index._index = faiss.read_index(str(file))
        if approximate:
            index._index.hnsw.efSearch = HNSW_SEARCH_EFFORT
        return index
