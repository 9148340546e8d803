"""Triple scores: known counts, spelling that does not matter, micro averages."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.component_scores import (
    MatchCounts,
    match_entity_pairs,
    match_triples,
    normalise_field,
    score_triples,
)


@dataclass(frozen=True)
class Fact:
    subject: str
    predicate: str
    object: str


FACTS = st.lists(st.builds(Fact, *[st.text(alphabet="abAB_ ", max_size=3)] * 3), max_size=5)


@pytest.mark.parametrize(
    "spelling", ["runwayLength", "runway_length", "Runway  Length", " runway length\n"]
)
def test_spellings_of_one_predicate_agree(spelling: str) -> None:
    assert normalise_field(spelling) == "runwaylength"


def test_composed_and_decomposed_letters_agree() -> None:
    assert normalise_field("Café") == normalise_field("Cafe\u0301")


def test_exact_and_partial_counts() -> None:
    gold = [Fact("Aarhus_Airport", "runwayLength", "2776.0"), Fact("Aarhus", "country", "Denmark")]
    predicted = [
        Fact("aarhus airport", "runway length", "2776.0"),
        Fact("Aarhus Airport", "runway_length", "2776.0"),
        Fact("Aarhus", "located in", "Denmark"),
        Fact("Denmark", "capital", "Copenhagen"),
    ]
    assert match_triples(predicted, gold) == MatchCounts(correct=1, predicted=3, gold=2)
    assert match_entity_pairs(predicted, gold) == MatchCounts(correct=2, predicted=3, gold=2)


def test_corpus_scores_are_micro_averages() -> None:
    a, b, c = (Fact(name, "p", "o") for name in "abc")
    scores = score_triples([[a], [], [a, b, c]], [[a], [a], [b]])
    assert scores.exact == MatchCounts(correct=2, predicted=4, gold=3)
    expected = {"precision": 2 / 4, "recall": 2 / 3, "f1": 4 / 7}
    assert scores.as_dict()["exact"] == pytest.approx(expected)


def test_a_triple_of_another_text_does_not_count() -> None:
    a, b = Fact("a", "p", "o"), Fact("b", "p", "o")
    assert score_triples([[a], [b]], [[b], [a]]).exact.correct == 0


@pytest.mark.parametrize(
    ("counts", "precision", "recall", "f1"),
    [
        (MatchCounts(0, 0, 0), 1.0, 1.0, 1.0),
        (MatchCounts(0, 0, 3), 0.0, 0.0, 0.0),
        (MatchCounts(0, 3, 0), 0.0, 0.0, 0.0),
    ],
)
def test_empty_sides(counts: MatchCounts, precision: float, recall: float, f1: float) -> None:
    assert (counts.precision, counts.recall, counts.f1) == (precision, recall, f1)


@given(FACTS, FACTS)
def test_exact_never_beats_partial_and_sides_swap(predicted: list[Fact], gold: list[Fact]) -> None:
    exact, swapped = match_triples(predicted, gold), match_triples(gold, predicted)
    assert (exact.precision, exact.f1) == (swapped.recall, swapped.f1)
    assert 0.0 <= exact.f1 <= 1.0
    if exact.correct:
        assert match_entity_pairs(predicted, gold).correct > 0


@given(FACTS)
def test_gold_scored_against_itself_is_perfect(gold: list[Fact]) -> None:
    assert match_triples(gold, list(reversed(gold))).f1 == 1.0


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="for 1 texts but gold triples for 2"):
        score_triples([[]], [[], []])
