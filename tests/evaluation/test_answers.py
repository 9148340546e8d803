"""Answer scores: known values, the published rules, and what must hold for any text."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.answers import (
    accuracy,
    exact_match,
    golden_match,
    normalise_answer,
    token_f1,
)

TEXT = st.text(max_size=40)
GOLDS = st.lists(TEXT, min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Eiffel\tTower!", "eiffel tower"),
        ("U.S. Marshal Rooster Cogburn", "us marshal rooster cogburn"),
        ("an apple, a day; the doctor", "apple day doctor"),
        ("Anna and Theo", "anna and theo"),
        ("co-operate", "cooperate"),
        ("", ""),
        ("The A an", ""),
        ("北京。", "北京。"),
    ],
)
def test_normalise_follows_the_squad_convention(text: str, expected: str) -> None:
    assert normalise_answer(text) == expected


@pytest.mark.parametrize(
    ("prediction", "golds", "em", "f1"),
    [
        ("the Eiffel Tower", ["Eiffel tower."], 1.0, 1.0),
        ("tower in Paris", ["Eiffel Tower"], 0.0, 0.4),
        ("Paris", ["London", "Paris, France"], 0.0, 2 / 3),
        ("Rome", ["Paris"], 0.0, 0.0),
        # Bags: the second "new" of the prediction finds no partner.
        ("new new york", ["new york"], 0.0, 0.8),
        # HotpotQA: beside a closed answer only equality counts.
        ("yes it is", ["yes"], 0.0, 0.0),
        ("no", ["no one"], 0.0, 0.0),
        ("Yes.", ["yes"], 1.0, 1.0),
        # The closed gold answer does not spoil the other one.
        ("nobody", ["no", "nobody"], 1.0, 1.0),
        ("", ["Paris"], 0.0, 0.0),
        ("The The", ["the the"], 1.0, 1.0),
    ],
)
def test_em_and_f1_known_values(prediction: str, golds: list[str], em: float, f1: float) -> None:
    assert exact_match(prediction, golds) == em
    assert token_f1(prediction, golds) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("prediction", "golds", "anywhere", "words"),
    [
        ("He was born in the city of Paris.", ["Paris"], 1.0, 1.0),
        ("A party", ["art"], 1.0, 0.0),
        ("Rome", ["Paris", "rome"], 1.0, 1.0),
        ("Paris", ["city of Paris"], 0.0, 0.0),
        ("anything", ["The"], 0.0, 0.0),
        ("", ["The"], 1.0, 1.0),
    ],
)
def test_golden_match(prediction: str, golds: list[str], anywhere: float, words: float) -> None:
    assert golden_match(prediction, golds) == anywhere
    assert golden_match(prediction, golds, whole_words=True) == words


def test_accuracy_is_the_share_of_equal_labels() -> None:
    assert accuracy(["True", "a", "B."], ["true", "b", "b"]) == pytest.approx(2 / 3)


@given(TEXT)
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise_answer(text)
    assert normalise_answer(once) == once


@given(TEXT, GOLDS)
def test_scores_are_ordered(prediction: str, golds: list[str]) -> None:
    em, f1 = exact_match(prediction, golds), token_f1(prediction, golds)
    assert 0.0 <= em <= f1 <= 1.0
    assert em <= golden_match(prediction, golds, whole_words=True)
    assert golden_match(prediction, golds, whole_words=True) <= golden_match(prediction, golds)


@given(TEXT, GOLDS, TEXT)
def test_another_gold_answer_never_lowers_a_score(
    prediction: str, golds: list[str], extra: str
) -> None:
    for score in (exact_match, token_f1, golden_match):
        assert score(prediction, [*golds, extra]) >= score(prediction, golds)


@given(TEXT, TEXT)
def test_f1_is_symmetric(first: str, second: str) -> None:
    assert token_f1(first, [second]) == pytest.approx(token_f1(second, [first]))


@pytest.mark.parametrize("score", [exact_match, token_f1, golden_match])
def test_missing_or_misshapen_golds_are_refused(
    score: Callable[[str, Sequence[str]], float],
) -> None:
    with pytest.raises(ValueError, match="at least one gold answer"):
        score("Paris", [])
    with pytest.raises(ValueError, match="list of texts"):
        score("Paris", "Paris")


def test_accuracy_refuses_bad_input() -> None:
    with pytest.raises(ValueError, match="1 predictions but 2"):
        accuracy(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="at least one"):
        accuracy([], [])
