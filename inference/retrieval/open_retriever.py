"""A retriever by its name, from a saved index where one is, and rankings fused into one."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.dense import DenseRetriever
from inference.retrieval.milvus_client import MilvusError, is_milvus
from inference.retrieval.milvus_search import open_milvus
from inference.retrieval.passages import BM25, DENSE, EARLIER, META_FILE, Hit, Passage, Retriever
from models.files.sentence_encoder import load_sentence_encoder

RANK_CONSTANT = 60
# Hits of each retriever that are fused, at least.
FUSED = 50
logger = logging.getLogger(__name__)

RETRIEVER_KINDS = ("bm25", "dense", "hybrid")
RetrieverKind = Literal["bm25", "dense", "hybrid"]


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Hit]],
    top_k: int | None = None,
    weights: Sequence[float] | None = None,
) -> list[Hit]:
    """Score each passage by the sum of 1 / (60 + rank) over the rankings that hold it.

    weights: factors on the summands of each ranking; None: 1 for all.

    Ranks start at 1. Equal scores: the better best rank first, then the earlier ranking. A
    passage named twice in one ranking counts once, at its better place.
    """
    scores: dict[str, float] = {}
    best: dict[str, tuple[int, int]] = {}
    passages: dict[str, Passage] = {}
    shares = weights or [1.0] * len(rankings)
    for source, (ranking, share) in enumerate(zip(rankings, shares, strict=True)):
        identifiers = dict.fromkeys(hit.passage.id for hit in ranking)
        passages.update({hit.passage.id: hit.passage for hit in ranking})
        for rank, identifier in enumerate(identifiers, start=1):
            scores[identifier] = scores.get(identifier, 0.0) + share / (RANK_CONSTANT + rank)
            best[identifier] = min(best.get(identifier, (rank, source)), (rank, source))
    order = sorted(scores, key=lambda identifier: (-scores[identifier], best[identifier]))
    return [Hit(passages[identifier], scores[identifier]) for identifier in order[:top_k]]


class HybridRetriever:
    """Fuses the rankings of several retrievers over the same corpus."""

    def __init__(self, retrievers: Sequence[Retriever]) -> None:
        self.retrievers = list(retrievers)

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return best passages a query after fusion; each retriever gets all queries at once."""
        found = [retriever.search(queries, max(FUSED, top_k)) for retriever in self.retrievers]
        by_query = zip(*found, strict=True)
        return [reciprocal_rank_fusion(rankings, top_k) for rankings in by_query]


def build_retriever(
    kind: RetrieverKind | str,
    passages: Sequence[Passage],
    encoder: str = "minilm",
    index_dir: str | Path | None = None,
    title_weight: int = 1,
    exact: bool = False,
    sources: Sequence[str] | None = None,
) -> Retriever:
    """Build a retriever over `passages`, or load it from `index_dir`.

    index_dir: its folders `bm25` and `dense` are loaded where they exist and written where not, the
    latter with the vectors that its folder `earlier` knows, and then memory-mapped; None keeps the
    index in memory. FILE.db is an embedded Milvus and http://HOST:PORT/NAME a server.
    exact: compare every vector, however many there are. sources: search only passages of these
    sources, in Milvus alone.

    Raises IndexMismatchError for an index of another corpus or encoder, EmptyCorpusError,
    MilvusError, and ValueError for an unknown kind.
    """
    if kind not in RETRIEVER_KINDS:
        raise ValueError(f"unknown retriever {kind!r}; choose one of {', '.join(RETRIEVER_KINDS)}")
    if is_milvus(index_dir):
        model = None if kind == "bm25" else load_sentence_encoder(encoder)
        place = str(index_dir)
        parts = open_milvus(kind, passages, model, place, title_weight, exact, sources)
        return parts[0] if len(parts) == 1 else HybridRetriever(parts)
    if sources is not None:
        raise MilvusError(
            f"sources {', '.join(sources)}: an index in memory or in a folder is searched as a "
            "whole. Search one in Milvus, FILE.db or http://HOST:PORT"
        )
    folder = None if index_dir is None else Path(index_dir)
    if kind == "bm25":
        return _bm25(passages, folder, title_weight)
    if kind == "dense":
        return _dense(passages, encoder, folder, exact)
    dense = _dense(passages, encoder, folder, exact)
    return HybridRetriever([_bm25(passages, folder, title_weight), dense])


def renew_folder(folder: Path) -> None:
    """Make room in a folder whose indexes are of another corpus.

    The vectors stay, as those of an earlier corpus, of which `build_retriever` takes what it knows.
    """
    shutil.rmtree(folder / BM25, ignore_errors=True)
    if (folder / DENSE).is_dir():
        shutil.rmtree(folder / EARLIER, ignore_errors=True)
        (folder / DENSE).rename(folder / EARLIER)


def _bm25(passages: Sequence[Passage], folder: Path | None, title_weight: int) -> Bm25Retriever:
    target = folder and folder / BM25
    if target and (target / META_FILE).exists():
        return Bm25Retriever.load(target, passages, title_weight)
    retriever = Bm25Retriever(passages, title_weight)
    if not target:
        return retriever
    retriever.save(target)
    del retriever
    return Bm25Retriever.load(target, passages, title_weight)


def _dense(
    passages: Sequence[Passage], encoder_name: str, folder: Path | None, exact: bool
) -> DenseRetriever:
    encoder = load_sentence_encoder(encoder_name)
    target = folder and folder / DENSE
    if target and (target / META_FILE).exists():
        return DenseRetriever.load(target, passages, encoder, exact)
    earlier = folder and folder / EARLIER
    if earlier and earlier.is_dir():
        retriever = DenseRetriever.grown(earlier, passages, encoder, exact)
    else:
        logger.info("embedding %d passages with %s", len(passages), encoder.name)
        retriever = DenseRetriever(passages, encoder, exact=exact)
    if not target:
        return retriever
    retriever.save(target)
    del retriever
    return DenseRetriever.load(target, passages, encoder, exact)
