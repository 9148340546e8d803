"""Scores of a ranked list of passage ids against the ids that are relevant (all relevant alike).

An id that a ranking holds twice counts where it stands first.
"""

import math
from collections.abc import Collection, Sequence


def recall_at_k(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant ids among the first ``k`` of the ranking."""
    return len(set(_first(ranked, relevant, k)) & set(relevant)) / len(set(relevant))


def ndcg_at_k(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first ``k``, gains 0 or 1."""
    wanted = set(relevant)
    gain = sum(
        1 / math.log2(rank + 2)
        for rank, passage in enumerate(_first(ranked, relevant, k))
        if passage in wanted
    )
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(k, len(wanted))))
    return gain / ideal


def hit_at_k(ranked: Sequence[str], relevant: Collection[str], k: int = 1) -> float:
    """Return 1.0 if any of the first ``k`` (default 1: Hit@1) is relevant, else 0.0."""
    return float(not set(_first(ranked, relevant, k)).isdisjoint(relevant))


def score_retrieval(
    rankings: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], k: int = 5
) -> dict[str, float]:
    """Return the means of ``recall@k``, ``ndcg@k`` and ``hit@1`` over questions.

    Raises ValueError if there are no rankings, the lengths differ or a question has no relevant id.
    """
    if len(rankings) != len(relevant):
        raise ValueError(f"{len(rankings)} rankings but relevant ids of {len(relevant)} questions")
    if not rankings:
        raise ValueError("retrieval scores need at least one ranking")
    pairs = list(zip(rankings, relevant, strict=True))
    return {
        f"recall@{k}": sum(recall_at_k(r, wanted, k) for r, wanted in pairs) / len(pairs),
        f"ndcg@{k}": sum(ndcg_at_k(r, wanted, k) for r, wanted in pairs) / len(pairs),
        "hit@1": sum(hit_at_k(r, wanted) for r, wanted in pairs) / len(pairs),
    }


def _first(ranked: Sequence[str], relevant: Collection[str], k: int) -> list[str]:
    """Return the first ``k`` different ids, after checking the arguments."""
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if isinstance(ranked, str) or isinstance(relevant, str):
        raise ValueError("ids must be given as a list, not as one text")
    if not relevant:
        raise ValueError("a question needs at least one relevant id")
    return list(dict.fromkeys(ranked))[:k]
