"""Vectors and the search for the closest ones: exact, or approximate where there are very many."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from models.files.sentence_encoder import FloatArray

logger = logging.getLogger(__name__)
# Beyond so many vectors, a search that may miss some looks at a part of them.
EXACT_UP_TO = 100_000
# Of the sample's exact neighbours, the share that an approximate search is to find.
WANTED_RECALL = 0.95
RECALL_DEPTH = 10
# Vectors that a centroid is learnt from; how many lists a search looks into, tried in turn.
TRAINED_ON = 50
PROBES = (8, 16, 32, 64, 128, 256)
# Similarities that are searched for beyond those asked for, and how far apart single precision and
# the order of its sums may put equal ones.
MARGIN = 16
ROUNDING = 1e-5
# The beginning of a file of an IVF index.
CLUSTERED = b"Iw"
Found = list[list[tuple[int, float]]]
# Rows, their vectors [n, d], and the similarity of the last of them.
Candidates = tuple[npt.NDArray[np.int64], FloatArray, float]


class VectorIndex:
    """Vectors [n, d] of length 1, searched by cosine similarity, exactly unless `clustered`.

    Rows are numbered as they are added. Nothing is taken out: who replaces a document keeps its
    vectors beside the document, as the hierarchy does, and builds from what is left.
    """

    def __init__(self, dimension: int) -> None:
        self._index: Any = faiss.IndexFlatIP(dimension)
        self._mapped: Path | None = None

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def is_exact(self) -> bool:
        """Return whether every vector is compared."""
        return not isinstance(self._index, faiss.IndexIVF)

    def add(self, vectors: FloatArray) -> None:
        """Add vectors [n, d] behind those that are there."""
        if self._mapped is not None:
            self._index, self._mapped = faiss.read_index(str(self._mapped)), None
        self._index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def search(self, vectors: FloatArray, depth: int) -> Found:
        """Return for each vector [n, d] the closest rows with their similarity, best first.

        Equal ones come in the order of their rows. No more than `depth`.
        """
        depth = min(depth, len(self))
        if depth <= 0 or not len(vectors):
            return [[] for _ in vectors]
        found = self._index.search(np.ascontiguousarray(vectors, dtype=np.float32), depth)
        return [
            [(int(r[place]), float(s[place])) for place in np.lexsort((r, -s)) if r[place] >= 0]
            for s, r in zip(*found, strict=True)
        ]

    def nearest(self, vectors: FloatArray, top_k: int) -> Found:
        """Return what `search` does, with similarities that do not depend on how it is done.

        They are computed in double precision and rounded to single: the same for one query as for
        many, and in every store of the same vectors.
        """
        return nearest_rows(vectors, top_k, len(self), self.is_exact, self._candidates)

    def _candidates(self, vector: FloatArray, depth: int) -> Candidates:
        scores, rows, found = self._index.search_and_reconstruct(vector[None], depth)
        there = rows[0] >= 0
        return rows[0][there], found[0][there], float(scores[0][-1])

    def vectors(self) -> FloatArray:
        """Return all vectors [n, d] by their rows."""
        if not self.is_exact:
            self._index.make_direct_map()
        found: FloatArray = self._index.reconstruct_n(0, len(self))
        return found

    def clustered(self, queries: FloatArray) -> tuple[VectorIndex, dict[str, Any]]:
        """Return an approximate index of the same vectors, and how it searches and how well.

        Vectors lie in lists around centroids (IVF), four times the square root of their number;
        a search looks into the lists nearest to the query: as many as give the wanted recall of the
        ten nearest of `queries` [n, d], or the most that are tried.
        """
        own = self.vectors()
        lists = int(4 * np.sqrt(len(own)))
        quantizer = faiss.IndexFlatIP(own.shape[1])
        index = faiss.IndexIVFFlat(quantizer, own.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.max_points_per_centroid = TRAINED_ON
        # Fewer than it would like are said on standard error otherwise.
        index.cp.min_points_per_centroid = 1
        index.train(own)
        index.add(own)
        made = VectorIndex(own.shape[1])
        made._index = index
        wanted = self._index.search(queries, RECALL_DEPTH)[1]
        recall = 0.0
        for probes in PROBES:
            index.nprobe = probes
            recall = share_found(wanted, index.search(queries, RECALL_DEPTH)[1])
            if recall >= WANTED_RECALL:
                break
        about = {
            "lists": lists,
            "lists_searched": index.nprobe,
            "recall_at_10": round(recall, 4),
            "recall_queries": len(queries),
        }
        logger.info("approximate search of %d vectors: %s", len(own), about)
        return made, about

    def save(self, file: Path) -> None:
        """Write the index."""
        faiss.write_index(self._index, str(file))

    @classmethod
    def load(cls, file: Path, mapped: bool = False) -> VectorIndex:
        """Return what `save` wrote; `mapped` leaves the vectors in the file until they are read."""
        index = cls.__new__(cls)
        index._index = faiss.read_index(str(file), _mapping(file) if mapped else 0)
        index._mapped = file if mapped else None
        return index


def _mapping(file: Path) -> int:
    """Return the flags that map a file: lists of clusters go another way than one flat array."""
    with open(file, "rb") as written:
        is_clustered = written.read(4).startswith(CLUSTERED)
    flags: int = faiss.IO_FLAG_MMAP if is_clustered else faiss.IO_FLAG_MMAP_IFC
    return flags | faiss.IO_FLAG_READ_ONLY


def nearest_rows(
    vectors: FloatArray,
    top_k: int,
    count: int,
    is_exact: bool,
    candidates: Callable[[FloatArray, int], Candidates],
) -> Found:
    """Return for each vector [n, d] the closest of `count` rows, best first, see `nearest`.

    candidates: returns for a vector [d] and a depth that many of the closest rows, their vectors,
    and the similarity of the last; an exact search goes deeper as long as the next could matter.
    """
    if top_k <= 0 or not count:
        return [[] for _ in vectors]
    return [
        _nearest_to(vector, top_k, count, is_exact, candidates)
        for vector in np.asarray(vectors, np.float32)
    ]


def _nearest_to(
    vector: FloatArray,
    top_k: int,
    count: int,
    is_exact: bool,
    candidates: Callable[[FloatArray, int], Candidates],
) -> list[tuple[int, float]]:
    depth = min(top_k + MARGIN, count)
    while True:
        rows, found, last = candidates(vector, depth)
        ranked = ranked_rows(vector, rows, found, top_k)
        if depth == count or not is_exact or is_settled(ranked, top_k, last):
            return ranked
        depth = min(4 * depth, count)


def ranked_rows(
    vector: FloatArray, rows: npt.NDArray[np.int64], found: FloatArray, top_k: int
) -> list[tuple[int, float]]:
    """Return the best rows by similarity of `vector` [d] to theirs, `found` [n, d], best first.

    Computed in double precision, rounded to single; equal ones come in the order of their rows.
    """
    scores = (found.astype(np.float64) @ vector.astype(np.float64)).astype(np.float32)
    order = np.lexsort((rows, -scores))[:top_k]
    return [(int(rows[place]), float(scores[place])) for place in order]


def is_settled(ranked: list[tuple[int, float]], top_k: int, last: float) -> bool:
    """Return whether nothing that comes after similarity `last` belongs to the best."""
    return len(ranked) >= top_k and ranked[top_k - 1][1] > last + ROUNDING


class NearestSoFar:
    """The nearest rows of some queries [n, d] among vectors that come part by part."""

    def __init__(self, queries: FloatArray, depth: int = RECALL_DEPTH) -> None:
        self.queries = queries
        self.depth = depth
        self.rows = np.zeros((len(queries), 0), dtype=np.int64)
        self._scores = np.zeros((len(queries), 0), dtype=np.float32)
        self._count = 0

    def add(self, vectors: FloatArray) -> None:
        """Look at further vectors [m, d], whose rows follow those before."""
        new = np.arange(self._count, self._count + len(vectors))
        self._count += len(vectors)
        scores = np.concatenate([self._scores, self.queries @ vectors.T], axis=1)
        rows = np.concatenate([self.rows, np.tile(new, (len(self.queries), 1))], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.depth]
        self._scores = np.take_along_axis(scores, best, axis=1)
        self.rows = np.take_along_axis(rows, best, axis=1)


def share_found(wanted: npt.NDArray[np.int64], found: npt.NDArray[np.int64]) -> float:
    """Return which share of the wanted rows [n, k] is among those found, on average."""
    pairs = zip(wanted.tolist(), found.tolist(), strict=True)
    return float(np.mean([len(set(w) & set(f)) / len(w) for w, f in pairs]))
