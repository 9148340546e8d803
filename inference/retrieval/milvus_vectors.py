"""Vectors in Milvus of what is no passage: propositions, conditions, a hierarchy's sentences.

The folder of such an index stays what is true: texts are read there, and Milvus holds their
vectors, so that processes and machines share one copy of them. A row is the number of a text, its
hash and its vector; one more row says what the collection was made of.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from inference.retrieval.dense import APPROXIMATE, EXACT
from inference.retrieval.milvus_client import (
    Address,
    CollectionKind,
    Connection,
    MilvusError,
)
from inference.retrieval.milvus_index import AT_ONCE, LEAST_EF
from inference.retrieval.milvus_schema import (
    CHANGING,
    LONGEST_BYTES,
    MEANING,
    ROW,
    STALE_SECONDS,
    WHOLE,
    add_meanings,
    kept_dated,
    replace_collection,
)
from inference.retrieval.milvus_search import MOST_HITS
from inference.retrieval.passages import IndexMismatchError
from inference.retrieval.vectors import EXACT_UP_TO, Candidates, Found, nearest_rows
from models.files.sentence_encoder import FloatArray, SentenceEncoder

logger = logging.getLogger(__name__)
KEY = "key"
# The row that says what a collection was made of.
HEAD = -1
# The similarity of a vector beyond those that Milvus gives.
FARTHEST = -1.0
BUILDERS: dict[CollectionKind, str] = {
    "propositions": "build_propositions.py",
    "conditions": "build_kb.py",
    "sentences": "build_hierarchy.py",
}


@dataclass(frozen=True)
class About:
    """What a collection was made of; contents: hash of the hashes of its texts, in order."""

    encoder: str
    encoder_fingerprint: str
    search: str = EXACT
    rows: int = 0
    contents: str = ""
    state: str = WHOLE
    written: float = 0.0


class VectorCollection:
    """Vectors [n, d] of length 1 by row, searched by cosine similarity as `VectorIndex` does."""

    def __init__(self, connection: Connection, name: str, about: About) -> None:
        """Take what `open_collection` found or made."""
        self.connection = connection
        self.name = name
        self.about = about

    def __len__(self) -> int:
        return self.about.rows

    @property
    def is_exact(self) -> bool:
        """Return whether every vector is compared."""
        return self.about.search == EXACT

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def nearest(self, vectors: FloatArray, top_k: int) -> Found:
        """Return for each vector [n, d] the closest rows with their similarity, best first.

        The same as `VectorIndex.nearest` of the same vectors. Raises MilvusError.
        """
        return nearest_rows(vectors, top_k, len(self), self.is_exact, self._candidates)

    def _candidates(self, vector: FloatArray, depth: int) -> Candidates:
        return self._found(vector, depth) if depth <= MOST_HITS else self._all_vectors()

    def similarities(self, vector: FloatArray) -> FloatArray:
        """Return the similarity [n] of a vector [d] to every row, as Milvus computes it.

        Those beyond the 16,384 nearest, which is all that Milvus gives, have -1.
        """
        scores = np.full(len(self), FARTHEST, dtype=np.float32)
        # Vectors of thousands of rows would be most of the time of a question.
        for hit in self._hits(vector, min(len(self), MOST_HITS - 1), [ROW]):
            scores[int(hit["entity"][ROW])] = float(hit["distance"])
        return scores

    def _found(self, vector: FloatArray, depth: int) -> Candidates:
        """Return the nearest that Milvus gives, with their vectors."""
        own = self._hits(vector, depth, [ROW, MEANING])
        rows = np.array([int(hit["entity"][ROW]) for hit in own], dtype=np.int64)
        found = np.array([hit["entity"][MEANING] for hit in own], dtype=np.float32)
        last = float(own[-1]["distance"]) if own else FARTHEST
        return rows, found.reshape(len(own), len(vector)), last

    def _hits(self, vector: FloatArray, depth: int, fields: list[str]) -> list[dict[str, Any]]:
        # One more, since the head is a row, too.
        limit = min(depth + 1, MOST_HITS)
        parameters = {} if self.is_exact else {"ef": max(2 * limit, LEAST_EF)}
        [hits] = self.connection.read(
            "search",
            self.name,
            data=[vector.tolist()],
            anns_field=MEANING,
            limit=limit,
            output_fields=fields,
            search_params={"metric_type": "IP", "params": parameters},
        )
        own = [hit for hit in hits if int(hit["entity"][ROW]) != HEAD][:depth]
        if self.is_exact and len(own) < min(depth, MOST_HITS - 1):
            raise MilvusError(
                f"{self.connection.address}: answered with {len(own)} of {depth} vectors of "
                f"{self.name}. Try again when the server has loaded all of them, or see its log"
            )
        return own

    def _all_vectors(self) -> Candidates:
        """Return all; there is nothing behind the last."""
        parts = list(self._pages(MEANING))
        rows = np.concatenate([np.array([int(row[ROW]) for row in part]) for part in parts])
        found = np.concatenate([np.array([r[MEANING] for r in part], np.float32) for part in parts])
        return rows, found, -math.inf

    def _pages(self, field: str) -> Iterator[list[dict[str, Any]]]:
        """Yield all rows but the head with a field, by their numbers."""
        start = 0
        while True:
            condition = f"{ROW} >= {start} and {ROW} < {start + AT_ONCE}"
            found = self.connection.read(
                "query", self.name, filter=condition, output_fields=[ROW, field]
            )
            if not found and start >= self.about.rows:
                return
            yield sorted(found, key=lambda row: int(row[ROW]))
            start += AT_ONCE

    def put(self, keys: Sequence[str], vectors: FloatArray) -> int:
        """Make the rows those of `keys` and `vectors` [n, d]; returns how many were written.

        Rows that have their key already are left as they are.
        """
        known = {int(row[ROW]): row[KEY] for part in self._pages(KEY) for row in part}
        differing = [row for row, key in enumerate(keys) if known.get(row) != key]
        surplus = [row for row in known if row >= len(keys)]
        size = vectors.shape[1]
        self._write_head(replace(self.about, state=CHANGING), size)
        with kept_dated(self.connection, lambda: self._write_head(self.about, size)):
            for start in range(0, len(differing), AT_ONCE):
                rows = [
                    {ROW: row, KEY: keys[row], MEANING: vectors[row].tolist()}
                    for row in differing[start : start + AT_ONCE]
                ]
                self.connection.write("upsert", self.name, rows)
            if surplus:
                self.connection.write("delete", self.name, ids=surplus)
            self.connection.write("flush", self.name)
        contents = contents_of(keys)
        whole = replace(self.about, rows=len(keys), contents=contents, state=WHOLE)
        self._write_head(whole, size)
        return len(differing)

    def _write_head(self, about: About, dimension: int) -> None:
        self.about = replace(about, written=time.time())
        head = {ROW: HEAD, KEY: json.dumps(asdict(self.about)), MEANING: [0.0] * dimension}
        self.connection.write("upsert", self.name, [head])


def key_of(text: str) -> str:
    """Return the hash of a text, by which its row is known."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def contents_of(keys: Sequence[str]) -> str:
    """Return the hash of all keys in their order."""
    return hashlib.blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()


def open_collection(
    place: object,
    kind: CollectionKind,
    texts: Sequence[str],
    vectors: Callable[[], FloatArray],
    encoder: SentenceEncoder,
    renew: bool = False,
) -> VectorCollection:
    """Open the vectors of an index's texts in Milvus, or put them there where there are none.

    place: the address of an index of passages, behind whose name the kind is written. texts: by
    row. vectors: returns those of all texts, [n, d]. renew: bring what is there up to the texts.

    Raises:
        IndexMismatchError: those of other texts, or of another encoder; says which.
        MilvusError: no server, one that lacks rows, or a change that was interrupted.
    """
    connection = Connection(Address.parse(str(place)))
    try:
        return _opened(connection, kind, texts, vectors, encoder, renew)
    except BaseException:
        connection.close()
        raise


def _opened(
    connection: Connection,
    kind: CollectionKind,
    texts: Sequence[str],
    vectors: Callable[[], FloatArray],
    encoder: SentenceEncoder,
    renew: bool,
) -> VectorCollection:
    name = f"{connection.address.name}__{kind}"
    where = f"{connection.address} ({kind})"
    keys = list(map(key_of, texts))
    about = _read_head(connection, name)
    if about is None:
        search = EXACT if len(texts) <= EXACT_UP_TO else APPROXIMATE
        about = About(encoder.name, encoder.fingerprint, search, state=CHANGING)
        _create(connection, name, encoder.dimension, search)
        renew = True
    elif about.encoder_fingerprint != encoder.fingerprint:
        raise IndexMismatchError(
            f"{where}: holds vectors of the encoder {about.encoder}, and {encoder.name} is given. "
            "Use the first with --encoder, or give another NAME or file"
        )
    elif about.state == CHANGING and _is_fresh(connection, about):
        raise MilvusError(
            f"{where}: is being written by another process. Try again when that is done, or give "
            "another NAME in the address"
        )
    collection = VectorCollection(connection, name, about)
    is_whole = about.state == WHOLE and about.contents == contents_of(keys)
    if renew and not is_whole:
        written = collection.put(keys, vectors())
        logger.info("%s: wrote %d of %d vectors", where, written, len(keys))
    elif not is_whole:
        raise IndexMismatchError(
            f"{where}: holds {about.rows} vectors of other texts than the {len(keys)} of the "
            f"folder, or an interrupted change. Run inference/{BUILDERS[kind]} with --index, which "
            "brings them up to it, or give another NAME or file"
        )
    _check_count(collection, where)
    return collection


def _is_fresh(connection: Connection, about: About) -> bool:
    return connection.address.is_server and time.time() - about.written < STALE_SECONDS


def _read_head(connection: Connection, name: str) -> About | None:
    if not connection.read("has_collection", name):
        return None
    connection.read("load_collection", name)
    rows = connection.read("get", name, [HEAD], output_fields=[KEY])
    return About(**json.loads(rows[0][KEY])) if rows else None


def _create(connection: Connection, name: str, dimension: int, search: str) -> None:
    from pymilvus import DataType

    schema = connection.client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field(ROW, DataType.INT64, is_primary=True)
    schema.add_field(KEY, DataType.VARCHAR, max_length=LONGEST_BYTES)
    indexes = connection.client.prepare_index_params()
    add_meanings(schema, indexes, dimension, search)
    replace_collection(connection, name, schema, indexes)


def _check_count(collection: VectorCollection, where: str) -> None:
    counting = {"output_fields": ["count(*)"]}
    [counted] = collection.connection.read("query", collection.name, **counting)
    if counted["count(*)"] != len(collection) + 1:
        raise MilvusError(
            f"{where}: answers with {counted['count(*)'] - 1} of {len(collection)} vectors. Try "
            "again when the server has loaded all of them, or see its log"
        )
