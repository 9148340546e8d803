"""An index of passages in Milvus: added to, replaced in and removed from without a rebuild.

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

from inference.retrieval.bm25 import indexed_text, tokenize
from inference.retrieval.bm25_parts import tf_parts
from inference.retrieval.dense import embedded
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
    NUMBER,
    ROW,
    STALE_SECONDS,
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
    one_of,
    read_about,
    stored,
)
from inference.retrieval.passages import Passage, contents_sum
from models.files.sentence_encoder import FloatArray, SentenceEncoder

logger = logging.getLogger(__name__)
AT_ONCE = 1000
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
        self.passages_collection, self.words_collection = collection_names(connection.address)

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
                "inference/build_index.py, or build another"
            )
        check_encoder(about, encoder, connection.address)
        index = cls(connection, about, encoder)
        if about.state == WHOLE:
            index._check_count()
        return index

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
        self.change([], [Stored(first + n, p, source) for n, p in enumerate(passages)])

    def replace(self, passages: Sequence[Passage]) -> None:
        """Put passages in the place of those of the same ids.

        Raises MilvusError for an id that is not there.
        """
        earlier = {found.passage.id: found for found in self._with_ids([p.id for p in passages])}
        for passage in passages:
            if passage.id not in earlier:
                raise MilvusError(f"{self.address}: there is no passage '{passage.id}'. Add it")
        new = {p.id: earlier[p.id]._replace(passage=p) for p in passages}
        self.change(list(earlier.values()), list(new.values()))

    def remove(self, ids: Iterable[str]) -> int:
        """Remove the passages of these ids, as far as they are there; returns how many were."""
        gone = list(self._with_ids(list(dict.fromkeys(ids))))
        self.change(gone, [])
        return len(gone)

    def refresh(self) -> None:
        """Count the words anew and write every passage's parts at the average length of today.

        Mends an index whose change was interrupted; what was to change is then to be changed again.
        """
        self.write_about(replace(self.about, state=CHANGING))
        about = replace(self.about, passages=0, words=0, contents="0")
        found_in: Counter[str] = Counter()
        for part in self.all_stored():
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
        for part in self.all_stored():
            self._rewrite(part)
        self.write_about(replace(self.about, state=WHOLE))

    def all_stored(self) -> Iterator[list[Stored]]:
        """Yield all passages in parts by their rows, also those of an interrupted change."""
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
                "query", self.words_collection, filter=condition, output_fields=[WORD, NUMBER]
            )
            known |= {row[WORD]: int(row[NUMBER]) for row in rows if row[WORD] != ABOUT_KEY}
            if start > self.about.next_number and not rows:
                break
        number = max([self.about.next_number, *(own + 1 for own in known.values())])
        for word in found_in:
            if word not in known:
                known[word], number = number, number + 1
        self.about = replace(self.about, next_number=number)
        self.write_words({word: (own, found_in.get(word, 0)) for word, own in known.items()})

    def _rewrite(self, stored: Sequence[Stored]) -> None:
        known: dict[int, Any] = {}
        if self.about.encoder is not None and stored:
            names = [found.row for found in stored]
            rows = self.connection.read(
                "get", self.passages_collection, names, output_fields=[MEANING]
            )
            known = {row[ROW]: row[MEANING] for row in rows}
        words = self._words_of([found.passage for found in stored])
        numbers = self.known_words(set(itertools.chain.from_iterable(words)))[0]
        vectors = [known.get(found.row) for found in stored]
        self.write_rows(stored, _numbered(words, numbers), vectors)

    def change(self, gone: Sequence[Stored], new: Sequence[Stored]) -> None:
        """Take passages out and put others in, so many at a time.

        gone: as they are stored. new: takes the place of the one of `gone` that has its row.
        """
        check_lengths([found.passage for found in new])
        if new and self.encoder is None and self.about.encoder is not None:
            raise MilvusError(
                f"{self.address}: holds vectors of the encoder {self.about.encoder}. Open it with "
                "that encoder to put passages in"
            )
        earlier = {found.row: found for found in gone}
        for part in parts_of(new):
            replaced = [earlier.pop(found.row) for found in part if found.row in earlier]
            self._change_part(replaced, part)
        for part in parts_of(earlier.values()):
            self._change_part(part, [])

    def _change_part(self, gone: Sequence[Stored], new: Sequence[Stored]) -> None:
        """Change so few passages that they are written at once."""
        before, after = ([found.passage for found in part] for part in (gone, new))
        words_before, words = self._words_of(before), self._words_of(after)
        vectors: Iterable[FloatArray | None] = [None] * len(new)
        if new and self.encoder is not None:
            [vectors] = embedded(after, self.encoder)
        self.write_about(replace(self.about, state=CHANGING))
        self._count(words_before, -1)
        numbers = self._count(words, 1)
        self.write_rows(new, _numbered(words, numbers), vectors)
        rows = sorted({found.row for found in gone} - {found.row for found in new})
        if rows:
            self.connection.write("delete", self.passages_collection, ids=rows)
        about = self.about
        contents = contents_sum(after, contents_sum(before, about.contents, -1))
        self.write_about(
            replace(
                about,
                passages=about.passages + len(new) - len(gone),
                words=about.words + sum(map(len, words)) - sum(map(len, words_before)),
                contents=contents,
                next_row=max([about.next_row, *(found.row + 1 for found in new)]),
                state=WHOLE,
            )
        )

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
        self.write_words(changed)
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
        for part in parts_of([ABOUT_KEY, *words]):
            rows = self.connection.read("get", self.words_collection, part, output_fields=fields)
            for row in rows:
                if row[WORD] == ABOUT_KEY:
                    about = About(**json.loads(row[ABOUT]))
                else:
                    found[row[WORD]] = (int(row[NUMBER]), int(row[FOUND_IN]))
        if about is None:
            raise MilvusError(f"{self.address}: the index is gone. Build it anew")
        return found, about

    def _with_ids(self, ids: Sequence[str]) -> Iterator[Stored]:
        for part in parts_of(ids):
            yield from self._stored(one_of(ID, part))

    def _stored(self, condition: str) -> Iterator[Stored]:
        found = self.connection.read(
            "query", self.passages_collection, filter=condition, output_fields=list(FIELDS)
        )
        for row in sorted(found, key=lambda row: int(row[ROW])):
            yield stored(row)

    def write_rows(
        self,
        passages: Sequence[Stored],
        numbers: Iterable[Sequence[int]],
        vectors: Iterable[FloatArray | None],
        method: str = "upsert",
    ) -> None:
        """Write passages with the numbers of their words, in the place of those of their rows.

        method: `insert` where no row of theirs is there, which is faster.
        """
        rows = []
        for found, own, vector in zip(passages, numbers, vectors, strict=True):
            counts = Counter(own)
            parts = tf_parts(list(counts.values()), len(own), self.about.average)
            sparse = dict(zip(counts, map(float, parts), strict=True))
            rows.append(as_row(found, sparse, vector))
        for part in parts_of(rows):
            self.connection.write(method, self.passages_collection, part)

    def write_words(self, words: Mapping[str, tuple[int, int]]) -> None:
        """Write the numbers of words, and in how many passages each is found."""
        rows = [
            {WORD: w, NUMBER: n, FOUND_IN: count, ABOUT: "", UNUSED: NO_VECTOR}
            for w, (n, count) in words.items()
        ]
        for part in parts_of(rows):
            self.connection.write("upsert", self.words_collection, part)

    def write_about(self, about: About) -> None:
        """Write what the index is made of."""
        self.connection.write("upsert", self.words_collection, [about_row(about)])
        self.about = about

    def date(self) -> None:
        """Write again what the index is made of, so that other processes see that it goes on."""
        self.connection.write("upsert", self.words_collection, [about_row(self.about)])

    def _check_count(self) -> None:
        counting = {"output_fields": ["count(*)"]}
        [counted] = self.connection.read("query", self.passages_collection, **counting)
        if counted["count(*)"] != self.about.passages:
            raise MilvusError(
                f"{self.address}: answers with {counted['count(*)']} of {self.about.passages} "
                "passages. Try again when the server has loaded all of them, or build it anew"
            )


def _numbered(
    words: Sequence[Sequence[str]], numbers: Mapping[str, tuple[int, int]]
) -> Iterator[list[int]]:
    return ([numbers[word][0] for word in own] for own in words)


def parts_of(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield items in lists of so many as are asked for or written at once."""
    pending = iter(items)
    while part := list(itertools.islice(pending, AT_ONCE)):
        yield part
