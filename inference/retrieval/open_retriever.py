"""A retriever by its name, from a saved index where one is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.dense import DenseRetriever
from inference.retrieval.fusion import HybridRetriever
from inference.retrieval.passages import META_FILE, Passage, Retriever
from models.sentence_encoder import load_sentence_encoder

logger = logging.getLogger(__name__)

RETRIEVER_KINDS = ("bm25", "dense", "hybrid")
RetrieverKind = Literal["bm25", "dense", "hybrid"]


def build_retriever(
    kind: RetrieverKind | str,
    passages: Sequence[Passage],
    encoder: str = "minilm",
    index_dir: str | Path | None = None,
    title_weight: int = 1,
    approximate: bool = False,
) -> Retriever:
    """Build a retriever over `passages`, or load it from `index_dir`.

    index_dir: its folders `bm25` and `dense` are loaded where they exist and written where not;
    None keeps the index in memory. Raises IndexMismatchError for an index of another corpus or
    encoder, EmptyCorpusError, and ValueError for an unknown kind.
    """
    folder = None if index_dir is None else Path(index_dir)
    if kind == "bm25":
        return _bm25(passages, folder, title_weight)
    if kind == "dense":
        return _dense(passages, encoder, folder, approximate)
    if kind == "hybrid":
        dense = _dense(passages, encoder, folder, approximate)
        return HybridRetriever([_bm25(passages, folder, title_weight), dense])
    raise ValueError(f"unknown retriever {kind!r}; choose one of {', '.join(RETRIEVER_KINDS)}")


def _bm25(passages: Sequence[Passage], folder: Path | None, title_weight: int) -> Bm25Retriever:
    target = folder and folder / "bm25"
    if target and (target / META_FILE).exists():
        return Bm25Retriever.load(target, passages, title_weight)
    retriever = Bm25Retriever(passages, title_weight)
    if target:
        retriever.save(target)
    return retriever


def _dense(
    passages: Sequence[Passage], encoder_name: str, folder: Path | None, approximate: bool
) -> DenseRetriever:
    encoder = load_sentence_encoder(encoder_name)
    target = folder and folder / "dense"
    if target and (target / META_FILE).exists():
        return DenseRetriever.load(target, passages, encoder, approximate)
    logger.info("embedding %d passages with %s", len(passages), encoder.name)
    retriever = DenseRetriever(passages, encoder, approximate)
    if target:
        retriever.save(target)
    return retriever
