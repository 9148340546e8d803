"""The vectors of a hierarchy's sentences and topics; topics that mean the same are made one."""

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from inference.indexes.knowledge_base.entries import condition_key
from models.files.sentence_encoder import FloatArray

LEVELS = ("topic", "subtopic")
SAME_MEANING = 0.85
"""By all-MiniLM-L6-v2: film director/director 0.85, but record label/label 0.75, novel/novelist
0.73 and father/mother 0.73."""
NEIGHBOURS = 64
_ROWS = 256
_NUMBER = re.compile(r"\d+")


def label_key(text: str) -> str:
    """Return a topic's name without case, accents, articles and punctuation."""
    return condition_key(text)


class VectorTables:
    """The tables of embedded texts, in the file of `open_database`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def unembedded_sentences(self) -> list[tuple[int, str, str]]:
        """Return number, document's title and text of the sentences without a vector."""
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
        """Return the vectors of all sentences by number, [n, d]."""
        rows = self._connection.execute("SELECT vector FROM sentences ORDER BY number")
        return _matrix([blob for (blob,) in rows], dimension)

    def labels(self, level: str, dimension: int) -> tuple[list[str], FloatArray]:
        """Return the names of a level's topics by `label_key`, in order, and their vectors."""
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
        """Return the pairs of names that mean the same, with their cosine similarity."""
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


def alike_pairs(
    new: Sequence[str],
    new_vectors: FloatArray,
    names: Sequence[str],
    vectors: FloatArray,
    threshold: float,
) -> list[tuple[str, str, float]]:
    """Return pairs of a new name and another, similar by `threshold` or more, each once, in order.

    names: all names, or the other new ones, with vectors [n, d] of length 1. A new name is paired
    with its `NEIGHBOURS` nearest at most. Names with other numbers in them ("1980s", "1990s") are
    never a pair.
    """
    pairs: dict[tuple[str, str], float] = {}
    for start in range(0, len(new), _ROWS):
        similarities = new_vectors[start : start + _ROWS] @ vectors.T
        if len(names) > NEIGHBOURS:
            least = -np.partition(-similarities, NEIGHBOURS, axis=1)[:, NEIGHBOURS - 1 : NEIGHBOURS]
            near = similarities >= np.maximum(least, threshold)
        else:
            near = similarities >= threshold
        for row, column in np.argwhere(near):
            one, other = sorted((new[start + row], names[column]))
            if one != other and _NUMBER.findall(one) == _NUMBER.findall(other):
                pairs[one, other] = round(float(similarities[row, column]), 4)
    return [(*pair, similarity) for pair, similarity in sorted(pairs.items())]


def merged_names(
    counts: Mapping[str, int], pairs: Iterable[tuple[str, str, float]]
) -> dict[str, str]:
    """Return what each name is called: itself, or the name that it joins.

    counts: facts by name. pairs: as `alike_pairs` gives them; those with other names are ignored.
    """
    near: dict[str, list[tuple[float, str]]] = {name: [] for name in counts}
    for one, other, similarity in pairs:
        if one in near and other in near:
            near[one].append((similarity, other))
            near[other].append((similarity, one))
    called: dict[str, str] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        own = [(-similarity, -counts[n], n) for similarity, n in near[name] if called.get(n) == n]
        called[name] = min(own)[2] if own else name
    return called
