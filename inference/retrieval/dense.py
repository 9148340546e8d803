"""Meaning-based retrieval: a sentence encoder and an index of its vectors."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

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
from inference.retrieval.vectors import EXACT_UP_TO, VectorIndex
from models.files.sentence_encoder import FloatArray, SentenceEncoder
from models.formats.passages import passage_key
from models.formats.prompts import passage_text

logger = logging.getLogger(__name__)
INDEX_FILE = "index.faiss"
KEYS_FILE = "keys.json"
EXACT, APPROXIMATE = "exact", "approximate"
# Passages whose texts are held at a time while they are embedded.
AT_ONCE = 4096
# Passages whose titles are the queries that an approximate search is measured with.
SAMPLED = 256


class DenseRetriever:
    """Cosine similarity between query and "title: text" under one sentence encoder."""

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: SentenceEncoder,
        index: VectorIndex | None = None,
        exact: bool = False,
    ) -> None:
        """Embed and index `passages`; `index` is a loaded one, see `load`.

        exact: compare every vector, also of more than `EXACT_UP_TO` passages.
        """
        self.passages = require_passages(passages)
        self.encoder = encoder
        self.about: dict[str, Any] = {}
        if index is None:
            index = VectorIndex(encoder.dimension)
            for vectors in embedded(passages, encoder):
                index.add(vectors)
            index = self._clustered(index, exact)
        self.index = index

    def _clustered(self, index: VectorIndex, exact: bool) -> VectorIndex:
        """Return an approximate index where there are many vectors; its recall is in `about`."""
        if exact or len(self.passages) <= EXACT_UP_TO:
            return index
        made, self.about = index.clustered(self.encoder.encode(sampled_titles(self.passages)))
        return made

    def add(self, passages: Sequence[Passage]) -> None:
        """Embed and index further passages behind those that are there."""
        if passages:
            texts = [passage_text(passage.title, passage.text) for passage in passages]
            self.index.add(self.encoder.encode(texts))
            self.passages = [*self.passages, *passages]

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return the best passages a query by cosine similarity; queries are embedded at once."""
        if not queries or top_k <= 0:
            return [[] for _ in queries]
        rankings = self.index.nearest(self.encoder.encode(clean_queries(queries)), top_k)
        return [[Hit(self.passages[row], score) for row, score in found] for found in rankings]

    def save(self, folder: str | Path) -> None:
        """Write `index.faiss`, the passages' keys and `meta.json`, whole or not at all."""
        with atomic_directory(folder) as target:
            self.index.save(target / INDEX_FILE)
            (target / KEYS_FILE).write_text(json.dumps(list(map(passage_key, self.passages))))
            search = EXACT if self.index.is_exact else APPROXIMATE
            write_meta(target, meta_of(self.passages, self.encoder, search) | self.about)

    @classmethod
    def grown(
        cls,
        earlier: str | Path,
        passages: Sequence[Passage],
        encoder: SentenceEncoder,
        exact: bool = False,
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
        made = cls(passages, encoder, index)
        made.index = made._clustered(index, exact)
        return made

    @classmethod
    def load(
        cls,
        folder: str | Path,
        passages: Sequence[Passage],
        encoder: SentenceEncoder,
        exact: bool = False,
    ) -> DenseRetriever:
        """Load what `save` wrote; the vectors are memory-mapped.

        exact: refuse an approximate index.

        Raises IndexMismatchError, naming both, when it was built with another encoder or over
        another corpus.
        """
        expected = meta_of(require_passages(passages), encoder, EXACT)
        known = set(expected)
        if not exact:
            del expected["search"]
        meta = check_meta(Path(folder), expected)
        found = cls(passages, encoder, VectorIndex.load(Path(folder) / INDEX_FILE, mapped=True))
        found.about = {name: value for name, value in meta.items() if name not in known}
        return found


def meta_of(passages: Sequence[Passage], encoder: SentenceEncoder, search: str) -> dict[str, Any]:
    """Return what is kept of an index's making, to be compared when it is loaded."""
    return {
        "kind": "dense",
        "encoder": encoder.name,
        "encoder_fingerprint": encoder.fingerprint,
        "passages": len(passages),
        "corpus_sha256": corpus_fingerprint(passages),
        "search": search,
    }


def embedded(passages: Sequence[Passage], encoder: SentenceEncoder) -> Iterator[FloatArray]:
    """Yield the vectors [n, d] of the passages in order, so many at a time; many show progress."""
    few = len(passages) <= AT_ONCE
    with tqdm(total=len(passages), desc="embed", unit=" passages", disable=few) as bar:
        for start in range(0, len(passages), AT_ONCE):
            part = passages[start : start + AT_ONCE]
            yield encoder.encode([passage_text(passage.title, passage.text) for passage in part])
            bar.update(len(part))


def sampled_titles(passages: Sequence[Passage]) -> list[str]:
    """Return titles of passages drawn at random, the queries that a search is measured with."""
    rows = np.random.default_rng(0).choice(
        len(passages), min(SAMPLED, len(passages)), replace=False
    )
    chosen = [passages[int(row)] for row in sorted(rows)]
    return [passage.title or passage.text[:80] for passage in chosen]


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
