"""Meaning-based retrieval: a sentence encoder and an index of its vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
from inference.retrieval.vectors import VectorIndex
from models.files.sentence_encoder import SentenceEncoder
from models.formats.prompts import passage_text

INDEX_FILE = "index.faiss"


class DenseRetriever:
    """Cosine similarity between query and "title: text" under one sentence encoder."""

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: SentenceEncoder,
        approximate: bool = False,
        index: VectorIndex | None = None,
    ) -> None:
        """Embed and index `passages`; `index` is a loaded one, see `load`."""
        self.passages: list[Passage] = []
        self.encoder = encoder
        self.approximate = approximate
        if index is None:
            self.index = VectorIndex(encoder.dimension, approximate)
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
        """Return best passages a query by cosine similarity; all queries are embedded in one
        call.
        """
        if not queries or top_k <= 0:
            return [[] for _ in queries]
        rankings = self.index.search(self.encoder.encode(clean_queries(queries)), top_k)
        return [[Hit(self.passages[row], score) for row, score in found] for found in rankings]

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
            self.index.save(target / INDEX_FILE)
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
        index = VectorIndex.load(Path(folder) / INDEX_FILE, approximate)
        return cls(passages, encoder, approximate, index)
