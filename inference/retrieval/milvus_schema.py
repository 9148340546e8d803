"""The form of an index in Milvus: its collections, their rows, and what it was made of."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from inference.retrieval.dense import APPROXIMATE, EXACT
from inference.retrieval.milvus_client import OF_WORDS, Address, Connection, MilvusError
from inference.retrieval.passages import IndexMismatchError, Passage, refuse_differing
from models.files.sentence_encoder import FloatArray, SentenceEncoder

logger = logging.getLogger(__name__)
FORMAT = 1
ROW, ID, SOURCE, TITLE, TEXT, WORDS, MEANING = (
    "row", "id", "source", "title", "text", "words", "meaning",
)  # fmt: skip
FIELDS = (ROW, ID, SOURCE, TITLE, TEXT)
WORD, NUMBER, FOUND_IN, ABOUT, UNUSED = "word", "number", "found_in", "about", "unused"
# A word never has a space; a row under this one says what the index was made of.
ABOUT_KEY = " about"
# A collection must have a dense vector, and a sparse one must not be empty.
NO_VECTOR, NO_WORD = [0.0, 0.0], 0
LONGEST_BYTES = 65535
# Of the approximate index, where there are very many passages.
HNSW = {"M": 32, "efConstruction": 200}
WHOLE, CHANGING = "whole", "changing"
# A build that has been dated no more for so long was stopped; one that goes on is, this often.
STALE_SECONDS, DATED_SECONDS = 600.0, 60.0
# Of a text in a condition. Milvus Lite knows no others, above all no \u.
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
MADE_OF = (
    "encoder", "encoder_fingerprint", "title_weight", "search", "passages", "contents", "format"
)  # fmt: skip


@dataclass(frozen=True)
class About:
    """What an index was made of, and the numbers that scores need.

    recall_at_10: of an approximate search by meaning against an exact one, when it was built.
    words: of all passages together. average: words a passage when the stored parts were computed.
    next_row, next_number: of the next passage and word. contents: of `contents_sum`.
    """

    title_weight: int
    encoder: str | None
    encoder_fingerprint: str | None
    search: str = EXACT
    recall_at_10: float | None = None
    passages: int = 0
    words: int = 0
    average: float = 1.0
    next_row: int = 0
    next_number: int = NO_WORD + 1
    contents: str = "0"
    state: str = WHOLE
    written: float = 0.0
    format: int = FORMAT

    @property
    def average_now(self) -> float:
        """Return the words a passage as it is now."""
        return self.words / self.passages if self.passages else 1.0

    @property
    def is_exact(self) -> bool:
        """Return whether a search by meaning compares every vector."""
        return self.search == EXACT

    @property
    def drift(self) -> float:
        """Return by what a stored part can be too small at most, as a factor."""
        return max(1.0, self.average_now / self.average)


class Stored(NamedTuple):
    """A passage as it lies in the database."""

    row: int
    passage: Passage
    source: str


def check_encoder(about: About, encoder: SentenceEncoder | None, address: Address) -> None:
    """Refuse another encoder than the one that an index was made with, and another format."""
    expected: dict[str, Any] = {"format": FORMAT}
    if encoder is not None:
        expected |= {"encoder": encoder.name, "encoder_fingerprint": encoder.fingerprint}
    check_about(about, expected, address)


def check_about(
    about: About, expected: Mapping[str, Any], address: Address, remedy: str = ""
) -> None:
    """Raise IndexMismatchError where an index was made otherwise; names both and the remedy.

    remedy: one that comes before the general ones.
    """
    remedy += "give another NAME in the address" if address.is_server else "name another file"
    made_of = {name: value for name, value in asdict(about).items() if name in MADE_OF}
    refuse_differing(str(address), made_of, dict(expected), remedy)


def stored(row: Mapping[str, Any]) -> Stored:
    """Return a row that was read as a passage."""
    return Stored(int(row[ROW]), Passage(row[ID], row[TITLE], row[TEXT]), row[SOURCE])


def collection_names(address: Address) -> tuple[str, str]:
    """Return the names of the collections of an index's passages and of its words."""
    return address.name, f"{address.name}{OF_WORDS}"


def read_about(connection: Connection) -> About | None:
    """Return what an index is made of; None where there is none.

    Raises IndexMismatchError for one of another format.
    """
    _, words = collection_names(connection.address)
    if not connection.read("has_collection", words):
        return None
    connection.read("load_collection", words)
    rows = connection.read("get", words, [ABOUT_KEY], output_fields=[ABOUT])
    if not rows:
        return None
    known = json.loads(rows[0][ABOUT])
    if known.get("format") != FORMAT:
        raise IndexMismatchError(
            f"{connection.address}: is of the format {known.get('format')}, and {FORMAT} is read "
            "here. Build it anew under another name"
        )
    return About(**known)


def create_collections(connection: Connection, dimension: int | None, search: str) -> None:
    """Create the two empty collections of an index, in the place of others of their names."""
    from pymilvus import DataType

    passages, words = collection_names(connection.address)
    client = connection.client
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    indexes = client.prepare_index_params()
    schema.add_field(ROW, DataType.INT64, is_primary=True)
    for name in (ID, SOURCE, TITLE, TEXT):
        schema.add_field(name, DataType.VARCHAR, max_length=LONGEST_BYTES)
    schema.add_field(WORDS, DataType.SPARSE_FLOAT_VECTOR)
    indexes.add_index(WORDS, index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
    if dimension is not None:
        add_meanings(schema, indexes, dimension, search)
    replace_collection(connection, passages, schema, indexes)
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    indexes = client.prepare_index_params()
    schema.add_field(WORD, DataType.VARCHAR, max_length=LONGEST_BYTES, is_primary=True)
    schema.add_field(NUMBER, DataType.INT64)
    schema.add_field(FOUND_IN, DataType.INT64)
    schema.add_field(ABOUT, DataType.VARCHAR, max_length=LONGEST_BYTES)
    schema.add_field(UNUSED, DataType.FLOAT_VECTOR, dim=len(NO_VECTOR))
    indexes.add_index(UNUSED, index_type="FLAT", metric_type="IP")
    replace_collection(connection, words, schema, indexes)


def add_meanings(schema: Any, indexes: Any, dimension: int, search: str) -> None:
    """Add the field of dense vectors [d] and its index, exact or approximate."""
    from pymilvus import DataType

    schema.add_field(MEANING, DataType.FLOAT_VECTOR, dim=dimension)
    kind: dict[str, Any] = {"index_type": "FLAT"}
    if search == APPROXIMATE:
        kind = {"index_type": "HNSW", "params": HNSW}
    indexes.add_index(MEANING, metric_type="IP", **kind)


def replace_collection(connection: Connection, name: str, schema: Any, indexes: Any) -> None:
    """Create an empty collection and load it; what lay there under its name goes."""
    if connection.read("has_collection", name):
        connection.write("drop_collection", name)
    connection.write("create_collection", name, schema=schema, consistency_level="Strong")
    # Not waited for: the collection is empty.
    connection.write("create_index", name, indexes, sync=False)
    connection.write("load_collection", name)


def check_lengths(passages: Sequence[Passage]) -> None:
    """Raise MilvusError for a passage with a text longer than Milvus takes."""
    for passage in passages:
        for name, text in vars(passage).items():
            if len(text) * 4 > LONGEST_BYTES and len(text.encode()) > LONGEST_BYTES:
                raise MilvusError(
                    f"passage '{passage.id[:80]}': {name} has {len(text.encode())} bytes, and "
                    f"Milvus takes {LONGEST_BYTES}. Cut it into passages, as inference/ingest.py "
                    "does"
                )


def one_of(field: str, texts: Sequence[str]) -> str:
    """Return the condition of a search or query that a field is one of these texts."""
    quoted = ", ".join(f'"{text.translate(_ESCAPES)}"' for text in texts)
    return f"{field} in [{quoted}]"


@contextmanager
def kept_dated(connection: Connection, date: Callable[[], object]) -> Iterator[None]:
    """Call `date`, which dates what is being made, every minute while the block runs.

    A thread does, since no call of an encoder or a server is sure to end in time. Nothing is dated
    in an embedded database, which has one process alone.
    """
    if not connection.address.is_server:
        yield
        return
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(DATED_SECONDS):
            try:
                date()
            except MilvusError as error:
                # One that lasts ends the work, too, which says so.
                logger.warning("a build could not be dated: %s", error)

    thread = threading.Thread(target=go_on, name="milvus-date", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def as_row(
    found: Stored, sparse: dict[int, float], vector: FloatArray | Sequence[float] | None
) -> dict[str, Any]:
    """Return a passage as a row."""
    passage = found.passage
    texts = {ID: passage.id, TITLE: passage.title, TEXT: passage.text, SOURCE: found.source}
    row: dict[str, Any] = {ROW: found.row, **texts, WORDS: sparse or {NO_WORD: 1.0}}
    if vector is not None:
        row[MEANING] = np.asarray(vector, dtype=np.float32).tolist()
    return row


def about_row(about: About) -> dict[str, Any]:
    """Return what an index is made of as a row among its words."""
    text = json.dumps(asdict(replace(about, written=time.time())))
    return {WORD: ABOUT_KEY, NUMBER: 0, FOUND_IN: 0, ABOUT: text, UNUSED: NO_VECTOR}
