"""Retrieval scores: known values, parity with scikit-learn, bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from evaluation.component_scores import hit_at_k, ndcg_at_k, recall_at_k, score_retrieval

IDS = st.lists(st.sampled_from("abcdefgh"), min_size=0, max_size=10)
RELEVANT = st.sets(st.sampled_from("abcdefgh"), min_size=1)


def test_known_values() -> None:
    ranked, relevant = ["x", "a", "y", "b"], {"a", "b"}
    assert recall_at_k(ranked, relevant, 2) == 0.5
    assert recall_at_k(ranked, relevant, 4) == 1.0
    assert hit_at_k(ranked, relevant) == 0.0
    assert hit_at_k(ranked, relevant, 2) == 1.0
    expected = (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))
    assert ndcg_at_k(ranked, relevant, 5) == pytest.approx(expected)


@given(st.permutations("abcdefgh"), RELEVANT, st.integers(1, 10))
def test_ndcg_parity_with_scikit_learn(ranked: list[str], relevant: set[str], k: int) -> None:
    truth = [[float(passage in relevant) for passage in ranked]]
    scores = [[float(-rank) for rank in range(len(ranked))]]
    assert ndcg_at_k(ranked, relevant, k) == pytest.approx(ndcg_score(truth, scores, k=k))


@given(IDS, RELEVANT, st.integers(1, 10))
def test_scores_stay_within_bounds_with_repeated_ids(
    ranked: list[str], relevant: set[str], k: int
) -> None:
    for score in (recall_at_k, ndcg_at_k, hit_at_k):
        assert 0.0 <= score(ranked, relevant, k) <= 1.0 + 1e-12
    assert recall_at_k(ranked, relevant, k) <= recall_at_k(ranked, relevant, k + 1)


def test_means_over_questions() -> None:
    scores = score_retrieval([["a"], ["b", "a"]], [["a"], ["a"]], k=1)
    assert scores == {"recall@1": 0.5, "ndcg@1": 0.5, "hit@1": 0.5}


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one relevant"):
        recall_at_k(["a"], [], 5)
    with pytest.raises(ValueError, match="k must be at least 1"):
        ndcg_at_k(["a"], ["a"], 0)
    with pytest.raises(ValueError, match="list"):
        hit_at_k(["a"], "a")
    with pytest.raises(ValueError, match="at least one ranking"):
        score_retrieval([], [])
    with pytest.raises(ValueError, match="1 rankings"):
        score_retrieval([["a"]], [])
