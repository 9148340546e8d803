"""The vectors of a hierarchy's sentences and topics, and which topics mean the same."""

import sqlite3
from collections.abc import Iterable, Sequence

import numpy as np

from inference.knowledge_base.entries import condition_key
from models.sentence_encoder import FloatArray

LEVELS = ("topic", "subtopic")


def label_key(text: str) -> str:
    """A topic's name without case, accents, articles and punctuation; those that agree are one."""
    return condition_key(text)


class VectorTables:
    """What is embedded, in the file of `open_database`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def unembedded_sentences(self) -> list[tuple[int, str, str]]:
        """Number, document's title and text of the sentences without a vector."""
        return list(
            self._connection.execute(
                "SELECT sentences.number, title, sentences.text FROM sentences JOIN documents "
                "ON sentences.document = documents.number WHERE vector IS NULL ORDER BY 1"
            )
        )

    def put_sentence_vectors(self, numbers: Sequence[int], vectors: FloatArray) -> None:
        """Store sentences' vectors, [n, d]."""
        rows = [(_blob(vector), number) for number, vector in zip(numbers, vectors, strict=True)]
        with self._connection as connection:
            connection.executemany("UPDATE sentences SET vector = ? WHERE number = ?", rows)

    def sentence_vectors(self, dimension: int) -> FloatArray:
        """Vectors of all sentences by number, [n, d]."""
        rows = self._connection.execute("SELECT vector FROM sentences ORDER BY number")
        return _matrix([blob for (blob,) in rows], dimension)

    def labels(self, level: str, dimension: int) -> tuple[list[str], FloatArray]:
        """Names of a level's topics as `label_key` gives them, in order, and their vectors."""
        rows = self._connection.execute(
            "SELECT name, vector FROM labels WHERE level = ? ORDER BY name", (level,)
        ).fetchall()
        return [name for name, _ in rows], _matrix([blob for _, blob in rows], dimension)

    def put_labels(
        self,
        level: str,
        names: Sequence[str],
        vectors: FloatArray,
        alike: Iterable[tuple[str, str, float]],
    ) -> None:
        """Store new names with their vectors, and the pairs of names that mean the same."""
        rows = [(level, name, _blob(v)) for name, v in zip(names, vectors, strict=True)]
        with self._connection as connection:
            connection.executemany("REPLACE INTO labels VALUES (?, ?, ?)", rows)
            connection.executemany(
                "REPLACE INTO alike VALUES (?, ?, ?, ?)", [(level, *pair) for pair in alike]
            )

    def delete_labels(self, level: str, names: Iterable[str]) -> None:
        """Take out names that no fact has any more, and their pairs."""
        rows = [(level, name) for name in names]
        with self._connection as connection:
            for where in ("name", "one", "other"):
                table = "labels" if where == "name" else "alike"
                connection.executemany(f"DELETE FROM {table} WHERE level = ? AND {where} = ?", rows)

    def alike(self, level: str) -> list[tuple[str, str, float]]:
        """Pairs of names that mean the same, with their cosine similarity."""
        return list(
            self._connection.execute(
                "SELECT one, other, similarity FROM alike WHERE level = ? ORDER BY one, other",
                (level,),
            )
        )


def _blob(vector: FloatArray) -> bytes:
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def _matrix(blobs: Sequence[bytes], dimension: int) -> FloatArray:
    joined = np.frombuffer(b"".join(blobs), dtype="<f4").astype(np.float32)
    return joined.reshape(len(blobs), dimension)
