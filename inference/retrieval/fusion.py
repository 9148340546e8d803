"""Several rankings made into one (reciprocal-rank fusion, Cormack et al. 2009)."""

from __future__ import annotations

from collections.abc import Sequence

from inference.retrieval.passages import Hit, Passage, Retriever

RANK_CONSTANT = 60


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Hit]], k: int = RANK_CONSTANT, top_k: int | None = None
) -> list[Hit]:
    """Score each passage by the sum of 1 / (k + rank) over the rankings that hold it.

    Ranks start at 1. Equal scores: the better best rank first, then the earlier ranking. A
    passage named twice in one ranking counts once, at its better place.
    """
    scores: dict[str, float] = {}
    best: dict[str, tuple[int, int]] = {}
    passages: dict[str, Passage] = {}
    for source, ranking in enumerate(rankings):
        identifiers = dict.fromkeys(hit.passage.id for hit in ranking)
        passages.update({hit.passage.id: hit.passage for hit in ranking})
        for rank, identifier in enumerate(identifiers, start=1):
            scores[identifier] = scores.get(identifier, 0.0) + 1.0 / (k + rank)
            best[identifier] = min(best.get(identifier, (rank, source)), (rank, source))
    order = sorted(scores, key=lambda identifier: (-scores[identifier], best[identifier]))
    return [Hit(passages[identifier], scores[identifier]) for identifier in order[:top_k]]


class HybridRetriever:
    """Fuses the rankings of several retrievers over the same corpus."""

    def __init__(
        self, retrievers: Sequence[Retriever], depth: int = 50, k: int = RANK_CONSTANT
    ) -> None:
        """depth: how many hits of each retriever are fused (at least the asked top_k)."""
        self.retrievers = list(retrievers)
        self.depth = depth
        self.k = k

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Best passages a query after fusion; each retriever gets all queries at once."""
        depth = max(self.depth, top_k)
        found = [retriever.search(queries, depth) for retriever in self.retrievers]
        by_query = zip(*found, strict=True)
        return [reciprocal_rank_fusion(rankings, self.k, top_k) for rankings in by_query]
