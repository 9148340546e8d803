"""An index in Milvus of a whole corpus: its rows, their words, and what it was made of."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from inference.retrieval.bm25 import word_numbers
from inference.retrieval.corpus import MappedCorpus
from inference.retrieval.dense import APPROXIMATE, EXACT, embedded, sampled_titles
from inference.retrieval.milvus_client import Connection
from inference.retrieval.milvus_index import AT_ONCE, LEAST_EF, MilvusIndex
from inference.retrieval.milvus_schema import (
    CHANGING,
    MEANING,
    NO_WORD,
    ROW,
    WHOLE,
    About,
    Stored,
    check_lengths,
    create_collections,
    kept_dated,
)
from inference.retrieval.passages import Passage, contents_sum, require_passages
from inference.retrieval.vectors import EXACT_UP_TO, NearestSoFar, share_found
from models.files.sentence_encoder import FloatArray, SentenceEncoder

logger = logging.getLogger(__name__)


def build_milvus(
    connection: Connection,
    passages: Sequence[Passage],
    encoder: SentenceEncoder | None = None,
    title_weight: int = 1,
    exact: bool = False,
) -> MilvusIndex:
    """Build the index of a corpus; what lay there under its name goes.

    encoder: None leaves meanings out. exact: as in `build_retriever`.

    Raises MilvusError, EmptyCorpusError.
    """
    check_lengths(require_passages(passages))
    search = EXACT if exact or len(passages) <= EXACT_UP_TO else APPROXIMATE
    name, fingerprint = (encoder.name, encoder.fingerprint) if encoder else (None, None)
    about = About(title_weight, name, fingerprint, search, state=CHANGING)
    create_collections(connection, encoder.dimension if encoder else None, search)
    index = MilvusIndex(connection, about, encoder)
    # Before the words are counted, which takes minutes: another builder is refused from now on.
    index.write_about(about)
    with kept_dated(connection, index.date):
        whole = _filled(index, passages)
    index.write_about(whole)
    return index


def _filled(index: MilvusIndex, passages: Sequence[Passage]) -> About:
    """Write all passages and their words; returns what the index is made of then."""
    about, encoder = index.about, index.encoder
    vocabulary = {"": NO_WORD}
    numbers = word_numbers(passages, about.title_weight, vocabulary)
    total = sum(map(len, numbers))
    index.about = about = replace(about, words=total, average=total / len(passages) or 1.0)
    sample = _sample(index, passages)
    contents, vectors = "0", _vectors(passages, encoder, sample)
    for start in range(0, len(passages), AT_ONCE):
        rows = [
            Stored(row, *sourced(passages, row))
            for row in range(start, min(start + AT_ONCE, len(passages)))
        ]
        own = numbers[start : start + len(rows)]
        index.write_rows(rows, own, itertools.islice(vectors, len(rows)), "insert")
        contents = contents_sum((each.passage for each in rows), contents)
    found_in = np.zeros(len(vocabulary), dtype=np.int64)
    for each in numbers:
        found_in[np.unique(each)] += 1
    words = zip(itertools.islice(vocabulary, 1, None), found_in[1:].tolist(), strict=True)
    index.write_words({w: (n, count) for n, (w, count) in enumerate(words, NO_WORD + 1)})
    for collection in (index.passages_collection, index.words_collection):
        index.connection.write("flush", collection)
    return replace(
        about,
        passages=len(passages),
        next_row=len(passages),
        next_number=len(vocabulary),
        contents=contents,
        recall_at_10=_recall(index, sample),
        state=WHOLE,
    )


def sourced(passages: Sequence[Passage], row: int) -> tuple[Passage, str]:
    """Return a passage and where it comes from; "" for one of a list, which does not know."""
    if isinstance(passages, MappedCorpus):
        return passages.with_source(row)
    return passages[row], ""


def _vectors(
    passages: Sequence[Passage], encoder: SentenceEncoder | None, sample: NearestSoFar | None
) -> Iterator[FloatArray | None]:
    """Yield each passage's vector; the sample sees all of them."""
    if encoder is None:
        yield from itertools.repeat(None, len(passages))
        return
    for part in embedded(passages, encoder):
        if sample is not None:
            sample.add(part)
        yield from part


def _sample(index: MilvusIndex, passages: Sequence[Passage]) -> NearestSoFar | None:
    """Return what an approximate search is measured with; None for an exact one."""
    if index.encoder is None or index.about.is_exact:
        return None
    return NearestSoFar(index.encoder.encode(sampled_titles(passages)))


def _recall(index: MilvusIndex, sample: NearestSoFar | None) -> float | None:
    if sample is None:
        return None
    found = index.connection.read(
        "search",
        index.passages_collection,
        data=sample.queries.tolist(),
        anns_field=MEANING,
        limit=sample.depth,
        search_params={"metric_type": "IP", "params": {"ef": LEAST_EF}},
    )
    rows = np.full(sample.rows.shape, -1, dtype=np.int64)
    for place, hits in enumerate(found):
        rows[place, : len(hits)] = [hit[ROW] for hit in hits]
    recall = round(share_found(sample.rows, rows), 4)
    logger.info("%s: recall at 10 of the approximate search: %s", index.address, recall)
    return recall
