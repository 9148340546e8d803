"""An index in Milvus brought up to a corpus: what is new, other or gone there, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from inference.retrieval.corpus import MappedCorpus
from inference.retrieval.milvus_build import build_milvus
from inference.retrieval.milvus_client import Connection, MilvusError
from inference.retrieval.milvus_index import MilvusIndex, parts_of
from inference.retrieval.milvus_schema import CHANGING, Stored, check_about, read_about
from models.files.sentence_encoder import SentenceEncoder

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Update:
    """How many passages were added, replaced and removed, and how many were as they should be.

    drift: by what the parts of BM25 that are stored can be too small, as a factor; see `About`.
    """

    added: int
    replaced: int
    removed: int
    unchanged: int
    drift: float

    @property
    def counts(self) -> dict[str, int | float]:
        """Return all of it by name."""
        return asdict(self)


def update_milvus(
    connection: Connection,
    corpus: MappedCorpus,
    encoder: SentenceEncoder | None,
    title_weight: int = 1,
    exact: bool = False,
    keep: bool = False,
    refresh: bool = False,
) -> Update:
    """Build the index of a corpus, or bring the one that is there up to it.

    Passages are compared by their ids; new ones get rows behind those that are there. What is kept
    in memory is one byte a passage of the corpus. An interrupted change is mended first; an
    interrupted update goes on with what is left.

    encoder: None for an index without meanings. exact: of an index that is built; one that is there
    stays what it is. keep: leave passages that the corpus has not. refresh: write
    the parts of BM25 anew at the end.

    Raises MilvusError, also for an id that the corpus has twice, IndexMismatchError.
    """
    twice = corpus.repeated_id()
    if twice is not None:
        raise MilvusError(f"{corpus.path}: has the id '{twice[:80]}' twice. Give each its own")
    about = read_about(connection)
    index = MilvusIndex.open(connection, encoder, mend=True)
    if index is None:
        made = build_milvus(connection, corpus, encoder, title_weight, exact)
        return Update(len(corpus), 0, 0, 0, made.about.drift)
    check_about(index.about, {"title_weight": title_weight}, connection.address)
    if about is not None and about.state == CHANGING:
        logger.warning("%s: a change was interrupted; it is mended first", connection.address)
        index.refresh()
    seen = bytearray(len(corpus))
    replaced = removed = 0
    for stored in index.all_stored():
        gone, new = _differing(stored, corpus, seen, keep)
        if gone:
            index.change(gone, new)
        replaced, removed = replaced + len(new), removed + len(gone) - len(new)
    unchanged = sum(seen) - replaced
    added = 0
    for part in parts_of(_unseen(corpus, seen)):
        first = index.about.next_row
        index.change([], [each._replace(row=first + n) for n, each in enumerate(part)])
        added += len(part)
    if refresh:
        index.refresh()
    return Update(added, replaced, removed, unchanged, index.about.drift)


def _differing(
    stored: list[Stored], corpus: MappedCorpus, seen: bytearray, keep: bool
) -> tuple[list[Stored], list[Stored]]:
    """Return of stored passages those that are not as in the corpus, and those in their places.

    seen: rows of the corpus whose passages are there are marked.
    """
    gone, new = [], []
    for found in stored:
        row = corpus.row_of(found.passage.id)
        if row is None:
            gone += [] if keep else [found]
            continue
        seen[row] = 1
        now = Stored(found.row, *corpus.with_source(row))
        if now != found:
            gone.append(found)
            new.append(now)
    return gone, new


def _unseen(corpus: MappedCorpus, seen: bytearray) -> Iterator[Stored]:
    """Yield the passages that are not there yet, their rows still to be given."""
    row = seen.find(0)
    while row >= 0:
        yield Stored(-1, *corpus.with_source(row))
        row = seen.find(0, row + 1)
