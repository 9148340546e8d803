"""Names in sub-queries, and whether a sub-query asks about its document."""

import pytest

from evaluation.conditions import asks_about, named_entities

DOCUMENT = "The Zone (2017 film): Zone is a 2017 film that Denys Roe directed."


@pytest.mark.parametrize(
    ("subquery", "expected"),
    [
        ("Who directed The Zone (2017 Film)?", ["The Zone", "2017 Film"]),
        ("Where was Margaret of the Netherlands born?", ["Margaret of the Netherlands"]),
        ("In which country is Ann-Marie's Roe, Brill?", ["Ann-Marie's Roe", "Brill"]),
        ("Besides Georgia, who?", ["Besides Georgia"]),
        ("What happened in 1967?", ["1967"]),
        ("who sang it?", []),
        ("", []),
    ],
)
def test_named_entities(subquery: str, expected: list[str]) -> None:
    assert named_entities(subquery) == expected


@pytest.mark.parametrize(
    ("subquery", "about"),
    [
        ("Who directed The Zone?", True),
        ("Where was Denys Roe born?", True),
        ("Where was Denys Arcand born?", False),
        ("which film came out first?", True),
        ("which song came out first?", False),
        ("Who?", False),
        ("", False),
    ],
)
def test_a_sub_query_is_about_its_document_by_a_name_of_it(subquery: str, about: bool) -> None:
    assert asks_about(subquery, DOCUMENT) == about
