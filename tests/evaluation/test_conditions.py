"""Quality of condition triplets by rule: structure, support, agreement."""

import pytest

from evaluation.conditions import (
    MAX_WORDS,
    is_supported,
    is_well_formed,
    score_conditions,
    support,
    well_formed_share,
)
from models.formats.conditions import ConditionTriplet, ParsedConditions, parse_conditions

PASSAGE = "Dus Lakh: Dus Lakh is a 1966 film. It was directed by D. Goel."
GOOD = ConditionTriplet("Dus Lakh; director", "It was directed by D. Goel.", "Dus Lakh: D. Goel.")


@pytest.mark.parametrize(
    ("output", "intact"),
    [
        ("[C] a [P] b [R] c", True),
        ("[C] a [P] [R] c\n[C] d [P] e [R] f", True),
        ("", False),
        ("a, b, c", False),
        ("[C] a [P] b [R] c [C] d [P] e", False),
        (f"[C] {'a ' * (MAX_WORDS['condition'] + 1)}[P] b [R] c", False),
    ],
)
def test_integrity_wants_whole_triplets_in_bounds_and_nothing_else(
    output: str, intact: bool
) -> None:
    assert is_well_formed(parse_conditions(output)) is intact


def test_integrity_is_the_share_of_intact_outputs() -> None:
    outputs = [ParsedConditions([GOOD], 0), ParsedConditions([GOOD], 1), ParsedConditions([], 0)]
    assert well_formed_share(outputs) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="no output"):
        well_formed_share([])


@pytest.mark.parametrize(
    ("triplet", "supported"),
    [
        (GOOD, True),
        (ConditionTriplet("Dus Lakh; director", "", "Dus Lakh was directed by D. Goel."), True),
        (
            ConditionTriplet("Dus Lakh; director", "", "It was directed by Alice Munro Smith."),
            False,
        ),
        (ConditionTriplet("Dus Lakh; year", "Nobody ever said so here.", "Dus Lakh: 1966."), False),
    ],
)
def test_support_is_in_the_passages_words(triplet: ConditionTriplet, supported: bool) -> None:
    assert is_supported(triplet, PASSAGE) is supported


def test_support_counts_triplets_not_passages() -> None:
    bad = ConditionTriplet("x", "", "Nothing of this kind stands there.")
    assert support([[GOOD, bad], [GOOD], []], [PASSAGE, PASSAGE, ""]) == pytest.approx(2 / 3)
    assert support([[]], [""]) == 1.0


def test_agreement_is_by_condition_then_by_conclusion() -> None:
    other = ConditionTriplet("dus lakh, director", "", "Dus Lakh: Kumar.")
    year = ConditionTriplet("Dus Lakh; year", "", "1966.")
    scores = score_conditions([[other, year, year], []], [[GOOD], [year]])
    assert (scores.conditions.correct, scores.conditions.predicted, scores.conditions.gold) == (
        1,
        2,
        2,
    )
    assert scores.whole.correct == 0
    assert scores.conclusion_f1 == pytest.approx(4 / 7)
    same = score_conditions([[GOOD]], [[GOOD]])
    assert same.whole.f1 == same.conclusion_f1 == 1.0
    assert score_conditions([[]], [[GOOD]]).conclusion_f1 is None
