"""Names of a graph's entities in a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.indexes.hierarchy.graph import NameFinder

NAMES = [
    "Return to Kabim",
    "Kabim",
    "film",
    "Dawn (1966 film)",
    "O'Neil & Sons",
    "1950",
    "Who",
    "()",
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who directed Return to Kabim?", ["Return to Kabim"]),
        ("who directed the film return to Kabim", ["Return to Kabim"]),
        ("Is Kabim older than Return to Kabim?", ["Kabim", "Return to Kabim"]),
        ("When did Dawn come out?", ["Dawn (1966 film)"]),
        ("Who founded O'Neil and O'Neil & Sons in 1950?", ["O'Neil & Sons"]),
        ("Which film came first?", []),
        ("Who was it?", []),
        ("谁导演的？", []),
        ("", []),
    ],
)
def test_proper_names_the_longest_first(question: str, expected: list[str]) -> None:
    assert [NAMES[number] for number in NameFinder(NAMES).find(question)] == expected


def test_one_name_may_mean_several_entities() -> None:
    finder = NameFinder(["Dawn (novel)", "Dawn (1966 film)", "dawn"])
    assert finder.find("Who wrote Dawn?") == (0, 1, 2)


@given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=40))
def test_any_text_is_read(names: list[str], text: str) -> None:
    found = NameFinder(names).find(text)
    assert set(found) <= set(range(len(names))) and len(set(found)) == len(found)
