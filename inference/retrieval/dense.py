"""Meaning-based retrieval: a sentence encoder and an index of its vectors."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from common.files import atomic_directory
from inference.retrieval.passages import (
    META_FILE,
    Hit,
    Passage,
    check_meta,
    clean_queries,
    corpus_fingerprint,
    require_passages,
    write_meta,
)
from models.files.sentence_encoder import FloatArray, SentenceEncoder
from models.formats.passages import passage_key
from models.formats.prompts import passage_text

logger = logging.getLogger(__name__)
INDEX_FILE = "index.faiss"
KEYS_FILE = "keys.json"


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

    def vectors(self) -> FloatArray:
        """Return all vectors [n, d] by their rows."""
        found: FloatArray = self._index.reconstruct_n(0, len(self))
        return found

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
        """Write `index.faiss`, the passages' keys and `meta.json`, whole or not at all."""
        with atomic_directory(folder) as target:
            self.index.save(target / INDEX_FILE)
            (target / KEYS_FILE).write_text(json.dumps(list(map(passage_key, self.passages))))
            write_meta(target, self._meta())

    @classmethod
    def grown(
        cls, earlier: str | Path, passages: Sequence[Passage], encoder: SentenceEncoder
    ) -> DenseRetriever:
        """Index passages of which an index that was saved earlier, over others, knows some.

        Only those that it does not know are embedded; all of them where it is another encoder's.
        """
        known = _known_vectors(Path(earlier), encoder)
        keys = list(map(passage_key, require_passages(passages)))
        new = {key: p for key, p in zip(keys, passages, strict=True) if key not in known}
        logger.info("embedding %d new passages of %d", len(new), len(keys))
        texts = [passage_text(passage.title, passage.text) for passage in new.values()]
        known |= zip(new, encoder.encode(texts), strict=True)
        index = VectorIndex(encoder.dimension)
        index.add(np.stack([known[key] for key in keys]))
        return cls(passages, encoder, index)

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


def _known_vectors(folder: Path, encoder: SentenceEncoder) -> dict[str, FloatArray]:
    """Return an index's vectors by the passages' keys; none where it is another encoder's."""
    try:
        meta = json.loads((folder / META_FILE).read_text(encoding="utf-8"))
        if meta["encoder_fingerprint"] != encoder.fingerprint:
            return {}
        keys = json.loads((folder / KEYS_FILE).read_text(encoding="utf-8"))
        return dict(zip(keys, VectorIndex.load(folder / INDEX_FILE).vectors(), strict=True))
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        logger.warning("%s is not taken over (%s); every passage is embedded", folder, error)
        return {}
