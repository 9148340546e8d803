"""Sentences that a question reaches through others: the second hop shares few words with it.

TH-RAG scores each sentence by its own cosine with the question (Algorithm 2, line 12), by which
"Ana Lis was born in Brill" is far from "Where was the director of Dawn born?". Here a sentence
that shares an entity with a better one is pulled towards that one's score; weight 0 is the paper's.
"""

import heapq
from collections.abc import Callable

import numpy as np

from inference.hierarchy.graph import Rows
from models.sentence_encoder import FloatArray


def best_rows(scores: FloatArray, most: int, rows: Rows | None = None) -> list[int]:
    """Rows with the highest scores, best first, of all or of `rows`; ties in the rows' order."""
    own = scores if rows is None else scores[rows]
    if len(own) > most:
        top = np.flatnonzero(own >= np.partition(own, len(own) - most)[len(own) - most])
    else:
        top = np.arange(len(own))
    order = top[np.argsort(-own[top], kind="stable")][:most]
    return [int(place if rows is None else rows[place]) for place in order]


def linked_rows(
    scores: FloatArray,
    most: int,
    weight: float,
    rows: Rows | None,
    entities_of: Callable[[int], set[int]],
    rows_of: Callable[[int], Rows],
) -> list[tuple[int, float]]:
    """The `most` best rows and their scores, best first.

    scores: of each row alone, [n]. weight: how far a row is pulled towards the score of the best
    row that it shares an entity with, in [0, 1). rows: those that may be taken; None for all.
    """
    allowed = np.ones(len(scores), dtype=bool)
    if rows is not None:
        allowed[:] = False
        allowed[rows] = True
    nearest = best_rows(scores, most, rows)
    best = {row: float(scores[row]) for row in nearest}
    waiting = [(-score, row) for row, score in best.items()]
    heapq.heapify(waiting)
    taken: dict[int, float] = {}
    reached: set[int] = set()
    while waiting and len(taken) < most:
        negative, row = heapq.heappop(waiting)
        if row in taken:
            continue
        taken[row] = -negative
        # Rows come in falling order, so an entity is reached by its best sentence first.
        for entity in entities_of(row) - reached if weight else ():
            reached.add(entity)
            near = rows_of(entity)
            for other in best_rows(scores, most, near[allowed[near]]):
                score = float(scores[other])
                pulled = score + weight * max(0.0, -negative - score)
                if other not in taken and pulled > best.get(other, -np.inf):
                    best[other] = pulled
                    heapq.heappush(waiting, (-pulled, other))
    return list(taken.items())
