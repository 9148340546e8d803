"""An index of passages in Milvus: built once, then added to, replaced in and removed from.

A passage is one row: its words' parts of BM25 as a sparse vector, its meaning as a dense one, id,
title, text and source. The query brings the inverse document frequencies, so that a passage that
comes or goes changes the numbers of its words and no other row. The parts are those at the average
length at which the index was built; what that drifts by is known (`About.drift`), searches allow
for it and compute the scores anew, and `refresh` writes the parts at today's average.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from inference.retrieval.bm25 import indexed_text, tokenize, word_numbers
from inference.retrieval.bm25_parts import tf_parts
from inference.retrieval.dense import APPROXIMATE, EXACT, embedded, sampled_titles
from inference.retrieval.milvus_client import Address, Connection, MilvusError
from inference.retrieval.milvus_schema import (
    ABOUT,
    ABOUT_KEY,
    CHANGING,
    FIELDS,
    FOUND_IN,
    ID,
    MEANING,
    NO_VECTOR,
    NO_WORD,
    NUMBER,
    ROW,
    UNUSED,
    WHOLE,
    WORD,
    About,
    Stored,
    about_row,
    as_row,
    check_encoder,
    check_lengths,
    collection_names,
    create_collections,
    read_about,
    stored,
)
from inference.retrieval.passages import Passage, contents_sum, require_passages
from inference.retrieval.vectors import EXACT_UP_TO, NearestSoFar, share_found
from models.files.sentence_encoder import FloatArray, SentenceEncoder

logger = logging.getLogger(__name__)
AT_ONCE = 1000
# A build that has written nothing for so long was stopped.
STALE_SECONDS = 600.0
# Candidates that an HNSW search keeps, at least.
LEAST_EF = 128


class MilvusIndex:
    """The rows of one index and what is known about it; one process at a time changes it."""

    def __init__(
        self, connection: Connection, about: About, encoder: SentenceEncoder | None
    ) -> None:
        """Take what `open` or `build` found or made."""
        self.connection = connection
        self.about = about
        self.encoder = encoder
        self._passages, self._words = collection_names(connection.address)

    @property
    def address(self) -> Address:
        """Return where it lies."""
        return self.connection.address

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    @classmethod
    def open(
        cls,
        connection: Connection,
        encoder: SentenceEncoder | None = None,
        mend: bool = False,
    ) -> MilvusIndex | None:
        """Open an index; None where there is none, or the beginning of one that was given up.

        encoder: of searches by meaning. mend: open one whose change was interrupted, for `refresh`.

        Raises MilvusError, also for an index that is being built or whose change was interrupted,
        IndexMismatchError for one of another encoder or format.
        """
        about = read_about(connection)
        if about is None:
            return None
        if about.state == CHANGING and about.passages == 0:
            if connection.address.is_server and time.time() - about.written < STALE_SECONDS:
                raise MilvusError(
                    f"{connection.address}: is being built by another process. Try again when that "
                    "is done, or give another NAME in the address"
                )
            return None
        connection.read("load_collection", connection.address.name)
        if about.state == CHANGING and not mend:
            raise MilvusError(
                f"{connection.address}: a change of this index was interrupted. Mend it with "
                "MilvusIndex.open(..., mend=True).refresh(), or build another"
            )
        check_encoder(about, encoder, connection.address)
        index = cls(connection, about, encoder)
        if about.state == WHOLE:
            index._check_count()
        return index

    @classmethod
    def build(
        cls,
        connection: Connection,
        passages: Sequence[Passage],
        encoder: SentenceEncoder | None = None,
        title_weight: int = 1,
        exact: bool = False,
    ) -> MilvusIndex:
        """Build the index of a corpus; what lay there under its name goes.

        encoder: None leaves meanings out. exact: as in `build_retriever`.
        """
        check_lengths(require_passages(passages))
        search = EXACT if exact or len(passages) <= EXACT_UP_TO else APPROXIMATE
        name, fingerprint = (encoder.name, encoder.fingerprint) if encoder else (None, None)
        about = About(title_weight, name, fingerprint, search, state=CHANGING)
        create_collections(connection, encoder.dimension if encoder else None, search)
        index = cls(connection, about, encoder)
        index._write_about(about)
        index._fill(passages)
        return index

    def _fill(self, passages: Sequence[Passage]) -> None:
        """Write all rows, then their words, then what the index is made of."""
        vocabulary = {"": NO_WORD}
        numbers = word_numbers(passages, self.about.title_weight, vocabulary)
        total = sum(map(len, numbers))
        average = total / len(passages) or 1.0
        found_in = np.zeros(len(vocabulary), dtype=np.int64)
        sample = self._sample(passages)
        contents, vectors = "0", self._vectors(passages, sample)
        for start in range(0, len(passages), AT_ONCE):
            part = passages[start : start + AT_ONCE]
            rows = []
            for row, passage in enumerate(part, start):
                own, counts = np.unique(numbers[row], return_counts=True)
                found_in[own] += 1
                parts = tf_parts(counts.tolist(), len(numbers[row]), average)
                sparse = dict(zip(own.tolist(), parts.tolist(), strict=True))
                rows.append(
                    as_row(Stored(row, passage, source_of(passages, row)), sparse, next(vectors))
                )
            self.connection.write("insert", self._passages, rows)
            contents = contents_sum(part, contents)
            if start % (20 * AT_ONCE) == 0:
                self._write_about(self.about)
        words = zip(itertools.islice(vocabulary, 1, None), found_in[1:].tolist(), strict=True)
        self._write_words({w: (n, count) for n, (w, count) in enumerate(words, NO_WORD + 1)})
        for name in (self._passages, self._words):
            self.connection.write("flush", name)
        self._write_about(
            replace(
                self.about,
                passages=len(passages),
                words=total,
                average=average,
                next_row=len(passages),
                next_number=len(vocabulary),
                contents=contents,
                recall_at_10=self._recall(sample),
                state=WHOLE,
            )
        )

    def _vectors(
        self, passages: Sequence[Passage], sample: NearestSoFar | None
    ) -> Iterator[FloatArray | None]:
        """Yield each passage's vector; the sample sees all of them."""
        if self.encoder is None:
            yield from itertools.repeat(None, len(passages))
            return
        for part in embedded(passages, self.encoder):
            if sample is not None:
                sample.add(part)
            yield from part

    def _sample(self, passages: Sequence[Passage]) -> NearestSoFar | None:
        """Return what an approximate search is measured with."""
        if self.encoder is None or self.about.is_exact:
            return None
        return NearestSoFar(self.encoder.encode(sampled_titles(passages)))

    def _recall(self, sample: NearestSoFar | None) -> float | None:
        if sample is None:
            return None
        found = self.connection.read(
            "search",
            self._passages,
            data=sample.queries.tolist(),
            anns_field=MEANING,
            limit=sample.depth,
            search_params={"metric_type": "IP", "params": {"ef": LEAST_EF}},
        )
        rows = np.full(sample.rows.shape, -1, dtype=np.int64)
        for place, hits in enumerate(found):
            rows[place, : len(hits)] = [hit[ROW] for hit in hits]
        recall = round(share_found(sample.rows, rows), 4)
        logger.info("%s: recall at 10 of the approximate search: %s", self.address, recall)
        return recall

    def add(self, passages: Sequence[Passage], source: str = "") -> None:
        """Add passages behind those that are there.

        Raises MilvusError for an id that is there already, or twice among them.
        """
        ids = [passage.id for passage in passages]
        twice = [name for name, count in Counter(ids).items() if count > 1]
        known = [found.passage.id for found in self._with_ids(ids)] + twice
        if known:
            raise MilvusError(
                f"{self.address}: there is a passage '{known[0]}' already. Replace it, or give the "
                "new one an id of its own"
            )
        first = self.about.next_row
        self._change([], [Stored(first + n, p, source) for n, p in enumerate(passages)])

    def replace(self, passages: Sequence[Passage]) -> None:
        """Put passages in the place of those of the same ids.

        Raises MilvusError for an id that is not there.
        """
        earlier = {found.passage.id: found for found in self._with_ids([p.id for p in passages])}
        for passage in passages:
            if passage.id not in earlier:
                raise MilvusError(f"{self.address}: there is no passage '{passage.id}'. Add it")
        new = {p.id: earlier[p.id]._replace(passage=p) for p in passages}
        self._change(list(earlier.values()), list(new.values()))

    def remove(self, ids: Iterable[str]) -> int:
        """Remove the passages of these ids, as far as they are there; returns how many were."""
        gone = list(self._with_ids(list(dict.fromkeys(ids))))
        self._change(gone, [])
        return len(gone)

    def refresh(self) -> None:
        """Count the words anew and write every passage's parts at the average length of today.

        Mends an index whose change was interrupted; what was to change is then to be changed again.
        """
        self._begin()
        about = replace(self.about, passages=0, words=0, contents="0")
        found_in: Counter[str] = Counter()
        for part in self._all_stored():
            passages = [found.passage for found in part]
            words = self._words_of(passages)
            found_in.update(itertools.chain.from_iterable(map(set, words)))
            about = replace(
                about,
                passages=about.passages + len(part),
                words=about.words + sum(map(len, words)),
                contents=contents_sum(passages, about.contents),
                next_row=max(about.next_row, part[-1].row + 1),
            )
        self.about = replace(about, average=about.average_now)
        self._recount(found_in)
        for part in self._all_stored():
            self._rewrite(part)
        self._write_about(replace(self.about, state=WHOLE))

    def _all_stored(self) -> Iterator[list[Stored]]:
        """Yield all passages by their rows, also those of a change that was interrupted."""
        end = self.about.next_row + AT_ONCE
        for start in range(0, end, AT_ONCE):
            found = list(self._stored(f"{ROW} >= {start} and {ROW} < {start + AT_ONCE}"))
            if found:
                yield found

    def _recount(self, found_in: Mapping[str, int]) -> None:
        """Write in how many passages each word is found, 0 of those that are in none any more."""
        known: dict[str, int] = {}
        last = self.about.next_number + AT_ONCE * len(found_in)
        for start in range(0, last, AT_ONCE):
            condition = f"{NUMBER} >= {start} and {NUMBER} < {start + AT_ONCE}"
            rows = self.connection.read(
                "query", self._words, filter=condition, output_fields=[WORD, NUMBER]
            )
            known |= {row[WORD]: int(row[NUMBER]) for row in rows if row[WORD] != ABOUT_KEY}
            if start > self.about.next_number and not rows:
                break
        number = max([self.about.next_number, *(own + 1 for own in known.values())])
        for word in found_in:
            if word not in known:
                known[word], number = number, number + 1
        self.about = replace(self.about, next_number=number)
        self._write_words({word: (own, found_in.get(word, 0)) for word, own in known.items()})

    def _rewrite(self, stored: Sequence[Stored]) -> None:
        known: dict[int, Any] = {}
        if self.about.encoder is not None and stored:
            names = [found.row for found in stored]
            rows = self.connection.read("get", self._passages, names, output_fields=[MEANING])
            known = {row[ROW]: row[MEANING] for row in rows}
        words = self._words_of([found.passage for found in stored])
        numbers = self.known_words(set(itertools.chain.from_iterable(words)))[0]
        self._write_rows(stored, words, numbers, [known.get(found.row) for found in stored])

    def _change(self, gone: Sequence[Stored], new: Sequence[Stored]) -> None:
        """Take passages out and put others in, so many at a time."""
        check_lengths([found.passage for found in new])
        if new and self.encoder is None and self.about.encoder is not None:
            raise MilvusError(
                f"{self.address}: holds vectors of the encoder {self.about.encoder}. Open it with "
                "that encoder to put passages in"
            )
        kept = {found.row for found in new}
        for part in _parts(gone):
            before = self._words_of([found.passage for found in part])
            self._begin()
            self._count(before, -1)
            rows = [found.row for found in part if found.row not in kept]
            if rows:
                self.connection.write("delete", self._passages, ids=rows)
            self._end([found.passage for found in part], before, -1)
        for part in _parts(new):
            passages = [found.passage for found in part]
            words = self._words_of(passages)
            vectors: Iterable[FloatArray | None] = [None] * len(part)
            if self.encoder is not None:
                [vectors] = embedded(passages, self.encoder)
            self._begin()
            numbers = self._count(words, 1)
            self._write_rows(part, words, numbers, vectors)
            last = max(found.row for found in part)
            self.about = replace(self.about, next_row=max(self.about.next_row, last + 1))
            self._end(passages, words, 1)

    def _begin(self) -> None:
        self._write_about(replace(self.about, state=CHANGING))

    def _end(self, passages: Sequence[Passage], words: Sequence[Sequence[str]], sign: int) -> None:
        """Note the change of a number of passages that all rows know of."""
        self.about = replace(
            self.about,
            passages=self.about.passages + sign * len(passages),
            words=self.about.words + sign * sum(map(len, words)),
            contents=contents_sum(passages, self.about.contents, sign),
            state=WHOLE,
        )
        self._write_about(self.about)

    def _count(self, words: Sequence[Sequence[str]], sign: int) -> dict[str, tuple[int, int]]:
        """Note in how many passages more, or fewer, each word is found; returns their numbers."""
        changes = Counter(itertools.chain.from_iterable(map(set, words)))
        known, _ = self.known_words(changes)
        number = self.about.next_number
        changed = {}
        for word, count in changes.items():
            own, found_in = known.get(word, (number, 0))
            number += own == number
            changed[word] = (own, found_in + sign * count)
        self.about = replace(self.about, next_number=number)
        self._write_words(changed)
        return changed

    def _words_of(self, passages: Sequence[Passage]) -> list[list[str]]:
        weight = self.about.title_weight
        return tokenize([indexed_text(passage, weight) for passage in passages])

    def known_words(self, words: Iterable[str]) -> tuple[dict[str, tuple[int, int]], About]:
        """Return numbers of words, and in how many passages each is found, and the index as it is.

        Raises MilvusError where the index is gone.
        """
        found, about = {}, None
        fields = [WORD, NUMBER, FOUND_IN, ABOUT]
        for part in _parts([ABOUT_KEY, *words]):
            rows = self.connection.read("get", self._words, part, output_fields=fields)
            for row in rows:
                if row[WORD] == ABOUT_KEY:
                    about = About(**json.loads(row[ABOUT]))
                else:
                    found[row[WORD]] = (int(row[NUMBER]), int(row[FOUND_IN]))
        if about is None:
            raise MilvusError(f"{self.address}: the index is gone. Build it anew")
        return found, about

    def _with_ids(self, ids: Sequence[str]) -> Iterator[Stored]:
        for part in _parts(ids):
            yield from self._stored(f"{ID} in {json.dumps(list(part), ensure_ascii=False)}")

    def _stored(self, condition: str) -> Iterator[Stored]:
        found = self.connection.read(
            "query", self._passages, filter=condition, output_fields=list(FIELDS)
        )
        for row in sorted(found, key=lambda row: int(row[ROW])):
            yield stored(row)

    def _write_rows(
        self,
        passages: Sequence[Stored],
        words: Sequence[Sequence[str]],
        numbers: Mapping[str, tuple[int, int]],
        vectors: Iterable[FloatArray | None],
    ) -> None:
        rows = []
        for found, own, vector in zip(passages, words, vectors, strict=True):
            counts = Counter(own)
            parts = tf_parts(list(counts.values()), len(own), self.about.average)
            sparse = {numbers[w][0]: float(part) for w, part in zip(counts, parts, strict=True)}
            rows.append(as_row(found, sparse, vector))
        for part in _parts(rows):
            self.connection.write("upsert", self._passages, part)

    def _write_words(self, words: Mapping[str, tuple[int, int]]) -> None:
        rows = [
            {WORD: w, NUMBER: n, FOUND_IN: count, ABOUT: "", UNUSED: NO_VECTOR}
            for w, (n, count) in words.items()
        ]
        for part in _parts(rows):
            self.connection.write("upsert", self._words, part)

    def _write_about(self, about: About) -> None:
        self.connection.write("upsert", self._words, [about_row(about)])
        self.about = about

    def _check_count(self) -> None:
        [counted] = self.connection.read("query", self._passages, output_fields=["count(*)"])
        if counted["count(*)"] != self.about.passages:
            raise MilvusError(
                f"{self.address}: answers with {counted['count(*)']} of {self.about.passages} "
                "passages. Try again when the server has loaded all of them, or build it anew"
            )


def source_of(passages: Sequence[Passage], row: int) -> str:
    """Return where a passage of a corpus comes from; "" for a list, which does not know."""
    source = getattr(passages, "source", None)
    return str(source(row)) if source is not None else ""


def _parts(items: Iterable[Any]) -> Iterator[list[Any]]:
    pending = iter(items)
    while part := list(itertools.islice(pending, AT_ONCE)):
        yield part
