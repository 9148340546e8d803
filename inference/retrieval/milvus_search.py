"""Searches of an index in Milvus: the same hits in the same order as those in memory.

The database finds candidates; their scores are computed here, as `bm25s` and `VectorIndex` compute
theirs, and equal ones are put in the corpus's order. Where candidates beyond those that were
fetched could still belong to the best, more are fetched.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from inference.retrieval.bm25 import indexed_text, tokenize
from inference.retrieval.bm25_parts import idf, score
from inference.retrieval.dense import EXACT
from inference.retrieval.milvus_build import build_milvus
from inference.retrieval.milvus_client import Address, Connection, MilvusError
from inference.retrieval.milvus_index import LEAST_EF, MilvusIndex
from inference.retrieval.milvus_schema import (
    FIELDS,
    MEANING,
    SOURCE,
    WORDS,
    About,
    check_about,
    one_of,
    stored,
)
from inference.retrieval.passages import Hit, Passage, Retriever, clean_queries, contents_sum
from inference.retrieval.vectors import MARGIN, is_settled, ranked_rows
from models.files.sentence_encoder import SentenceEncoder

logger = logging.getLogger(__name__)
# Milvus gives no more hits a query.
MOST_HITS = 16384
# How far a sum of single precision may lie from another of the same numbers, as a factor.
PRECISION = 1.0 + 1e-5
Found = Sequence[Mapping[str, Any]]


class MilvusWords:
    """BM25 over an index in Milvus; hits and scores are those of `Bm25Retriever`."""

    def __init__(self, index: MilvusIndex, sources: Sequence[str] | None = None) -> None:
        """sources: search only passages of these; None: all."""
        self.index = index
        self.sources = sources

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return the best passages a query; one that shares no word with the query is no hit."""
        tokens = tokenize(clean_queries(queries)) if queries else []
        if top_k <= 0 or not any(tokens):
            return [[] for _ in queries]
        known, about = self.index.known_words({word for words in tokens for word in words})
        known = {word: own for word, own in known.items() if own[1] > 0}
        asked = [[word for word in words if word in known] for words in tokens]
        idfs = {word: idf(found_in, about.passages) for word, (_, found_in) in known.items()}
        vectors = [
            {known[w][0]: float(n * idfs[w]) for w, n in Counter(words).items()} for words in asked
        ]

        def rank(place: int, found: Found) -> tuple[list[Hit], bool]:
            hits = self._scored(asked[place], idfs, found, about)[:top_k]
            last = float(found[-1]["distance"]) * about.drift * PRECISION if found else 0.0
            return hits, len(hits) == top_k and hits[-1].score > last

        return candidates(self.index, WORDS, vectors, top_k, self.sources, rank)

    def _scored(
        self, asked: Sequence[str], idfs: Mapping[str, Any], found: Found, about: About
    ) -> list[Hit]:
        own = [stored(hit["entity"]) for hit in found]
        texts = [indexed_text(each.passage, about.title_weight) for each in own]
        words = tokenize(texts) if texts else []
        average = about.average_now
        scores = [score(asked, idfs, each, average) for each in words]
        order = sorted(range(len(own)), key=lambda place: (-scores[place], own[place].row))
        return [Hit(own[place].passage, scores[place]) for place in order if scores[place] > 0]


class MilvusVectors:
    """Cosine similarity over an index in Milvus; hits and scores are those of `DenseRetriever`."""

    def __init__(
        self, index: MilvusIndex, encoder: SentenceEncoder, sources: Sequence[str] | None = None
    ) -> None:
        """sources: search only passages of these; None: all."""
        self.index = index
        self.encoder = encoder
        self.sources = sources

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return the best passages a query by cosine similarity; queries are embedded at once."""
        if not queries or top_k <= 0:
            return [[] for _ in queries]
        vectors = self.encoder.encode(clean_queries(queries))
        exact = self.index.about.is_exact

        def rank(place: int, found: Found) -> tuple[list[Hit], bool]:
            own = {each.row: each for each in (stored(hit["entity"]) for hit in found)}
            if not own:
                return [], True
            meanings = np.array([hit["entity"][MEANING] for hit in found], dtype=np.float32)
            ranked = ranked_rows(vectors[place], np.array(list(own)), meanings, top_k)
            settled = is_settled(ranked, top_k, float(found[-1]["distance"]))
            return [Hit(own[row].passage, similarity) for row, similarity in ranked], (
                settled or not exact
            )

        rows = [vector.tolist() for vector in vectors]
        return candidates(self.index, MEANING, rows, top_k, self.sources, rank)


def candidates(
    index: MilvusIndex,
    field: str,
    vectors: Sequence[Any],
    top_k: int,
    sources: Sequence[str] | None,
    rank: Callable[[int, Found], tuple[list[Hit], bool]],
) -> list[list[Hit]]:
    """Search for every vector, and again and deeper for those whose best are not settled.

    rank: makes the hits of a vector, by its place, out of what was found, and says whether more
    could change them.

    Raises MilvusError for an answer that lacks something.
    """
    done: list[list[Hit]] = [[] for _ in vectors]
    open_places = [place for place, vector in enumerate(vectors) if vector]
    depth = min(top_k + MARGIN, MOST_HITS)
    while open_places:
        found = _search(index, field, [vectors[place] for place in open_places], depth, sources)
        waiting = []
        for place, hits in zip(open_places, found, strict=True):
            if field == MEANING and sources is None:
                _check_whole(index, len(hits), depth)
            done[place], settled = rank(place, hits)
            if not settled and len(hits) == depth < MOST_HITS:
                waiting.append(place)
        open_places, depth = waiting, min(4 * depth, MOST_HITS)
    return done


def _search(
    index: MilvusIndex, field: str, vectors: list[Any], depth: int, sources: Sequence[str] | None
) -> list[Found]:
    fields = [*FIELDS, MEANING] if field == MEANING else list(FIELDS)
    condition = "" if sources is None else one_of(SOURCE, sources)
    parameters = {} if field == WORDS or index.about.is_exact else {"ef": max(2 * depth, LEAST_EF)}
    found: list[Found] = index.connection.read(
        "search",
        index.address.name,
        data=vectors,
        anns_field=field,
        limit=depth,
        filter=condition,
        output_fields=fields,
        search_params={"metric_type": "IP", "params": parameters},
    )
    if len(found) != len(vectors):
        raise MilvusError(
            f"{index.address}: answered {len(found)} of {len(vectors)} queries. See the server's "
            "log, and ask again"
        )
    return found


def _check_whole(index: MilvusIndex, found: int, depth: int) -> None:
    """Refuse an answer with fewer hits than there are passages, as while a server loads them."""
    expected = min(depth, index.about.passages)
    # Passages may have come and gone since the index was opened.
    if index.about.is_exact and found < expected and found < _passages_now(index, depth):
        raise MilvusError(
            f"{index.address}: answered with {found} of {expected} passages. Try again when the "
            "server has loaded all of them, or see its log"
        )


def _passages_now(index: MilvusIndex, depth: int) -> int:
    return min(depth, index.known_words([])[1].passages)


def open_milvus(
    kind: str,
    passages: Sequence[Passage],
    encoder: SentenceEncoder | None,
    index: str,
    title_weight: int = 1,
    exact: bool = False,
    sources: Sequence[str] | None = None,
) -> list[Retriever]:
    """Open an index in Milvus, or build it where there is none; returns what is to be fused.

    kind: bm25, dense or hybrid. passages: of the corpus, which must be those of the index; none:
    whatever the index holds. encoder: None for bm25. exact, sources: as in `build_retriever`.

    Raises MilvusError, IndexMismatchError, EmptyCorpusError.
    """
    address = Address.parse(index)
    connection = Connection(address)
    try:
        opened = MilvusIndex.open(connection, encoder)
        if opened is None:
            logger.info("building %s from %d passages", address, len(passages))
            opened = build_milvus(connection, passages, encoder, title_weight, exact)
        _check_made_for(opened, kind, passages, title_weight, exact)
    except BaseException:
        connection.close()
        raise
    found: list[Retriever] = []
    if kind != "dense":
        found.append(MilvusWords(opened, sources))
    if encoder is not None:
        found.append(MilvusVectors(opened, encoder, sources))
    return found


def _check_made_for(
    index: MilvusIndex, kind: str, passages: Sequence[Passage], title_weight: int, exact: bool
) -> None:
    expected: dict[str, Any] = {}
    if kind != "dense":
        expected["title_weight"] = title_weight
    if exact and kind != "bm25":
        expected["search"] = EXACT
    if len(passages):
        known = getattr(passages, "contents", None)
        expected["passages"] = len(passages)
        expected["contents"] = known if known is not None else contents_sum(passages)
    update = "bring it up to the corpus with inference/build_index.py, or "
    check_about(index.about, expected, index.address, update)
