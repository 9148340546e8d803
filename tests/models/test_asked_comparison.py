"""What a question wants compared."""

import pytest

from models.facts.comparisons import Comparison, asked_comparison


@pytest.mark.parametrize(
    ("question", "kind", "predicate", "via", "later"),
    [
        ("Who was born first, or?", "date", "date of birth", "", False),
        ("Who is younger, or?", "date", "date of birth", "", True),
        ("Which company is older, or?", "date", "inception", "", False),
        ("Who died later, or?", "date", "date of death", "", True),
        ("Which film was released more recently, or?", "date", "publication date", "", True),
        ("Which magazine came out first, or?", "date", "inception", "", False),
        ("Which film has the director died first, or?", "date", "date of death", "direc", False),
        ("Which film whose director is younger, or?", "date", "date of birth", "direc", True),
        (
            "Which song has the record label that was founded later, or?",
            "date", "inception", "label", True,
        ),
        (
            "Which film has the production company that was founded earlier, or?",
            "date", "inception", "compa", False,
        ),
        ("Who lived longer, or?", "lifetime", "date of death", "", True),
        ("Are and located in the same country?", "country", "country", "", False),
        ("Were and of the same nationality?", "country", "country of citizenship", "", False),
        (
            "Do both films have the directors from the same country?",
            "country", "country of citizenship", "direc", False,
        ),
        ("Were and born in the same city?", "value", "place of birth", "", False),
        ("Were and directed by the same person?", "value", "director", "", False),
        ("Do the films have the same director?", "value", "director", "", False),
        ("Do and have the same record label?", "value", "record label", "", False),
        (
            "Did the performer of and the performer of study at the same university?",
            "value", "educated at", "perfo", False,
        ),
    ],
)  # fmt: skip
def test_kind_relation_way_and_end(
    question: str, kind: str, predicate: str, via: str, later: bool
) -> None:
    asked = asked_comparison(question)
    assert asked is not None
    assert (asked.kind, asked.via, asked.later) == (Comparison(kind), via, later)
    assert predicate in asked.predicates


@pytest.mark.parametrize(
    "question",
    ["", "Where was the director of born?", "Which film has more directors, or?", "Who is?"],
)
def test_other_questions_ask_for_no_comparison(question: str) -> None:
    assert asked_comparison(question) is None
