"""Label scores: parity with scikit-learn, unreadable predictions, bad input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from evaluation.component_scores import score_labels

LABELS = st.sampled_from(["[SUBQ]", "[SUFFICIENT]", "[NO_RETRIEVAL]"])


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=30))
def test_parity_with_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    predicted, gold = [p for p, _ in pairs], [g for _, g in pairs]
    scores = score_labels(predicted, gold)
    assert scores.accuracy == pytest.approx(accuracy_score(gold, predicted))
    expected = f1_score(gold, predicted, average="macro", zero_division=0)
    assert scores.macro_f1 == pytest.approx(expected)
    assert sum(label.support for label in scores.per_label.values()) == len(gold)


def test_an_unreadable_prediction_is_wrong_but_no_label() -> None:
    scores = score_labels(["a", None, "b"], ["a", "a", "b"])
    assert scores.accuracy == pytest.approx(2 / 3)
    assert list(scores.per_label) == ["a", "b"]
    assert scores.per_label["a"].precision == 1.0
    assert scores.per_label["a"].recall == 0.5
    assert scores.as_dict()["per_label"]["b"]["f1"] == 1.0


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="1 predicted labels but 2"):
        score_labels(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="at least one label"):
        score_labels([], [])
