"""The parts of a BM25 score: what a passage brings, what a query brings, and their exact sum.

As bm25s computes it (Lucene's variant, k1 1.5, b 0.75): single precision where it has single, in
the order of the query's words, so that sums are equal to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

K1, B = 1.5, 0.75


def tf_parts(counts: Sequence[int], length: int, average: float) -> npt.NDArray[np.float64]:
    """Return how much each word of a passage tells, by how often it stands there.

    length: the passage's words, average: of all passages.
    """
    tf = np.asarray(counts, dtype=np.float32)
    return tf / (K1 * ((1 - B) + B * length / np.float64(average)) + tf)


def idf(found_in: int, passages: int) -> np.float32:
    """Return how much a word tells that `found_in` of so many passages have."""
    return np.float32(math.log(1 + (passages - found_in + 0.5) / (found_in + 0.5)))


def score(
    query: Sequence[str], idfs: Mapping[str, np.float32], words: Sequence[str], average: float
) -> float:
    """Return a passage's score for a query's words, of which those without an idf count nothing."""
    asked = [word for word in query if word in idfs]
    counts = dict.fromkeys(asked, 0)
    for word in words:
        if word in counts:
            counts[word] += 1
    there = [word for word, count in counts.items() if count]
    parts = tf_parts([counts[word] for word in there], len(words), average)
    weights = {
        word: np.float32(np.float64(idfs[word]) * part)
        for word, part in zip(there, parts, strict=True)
    }
    total = np.float32(0)
    for word in asked:
        if word in weights:
            total += weights[word]
    return float(total)
