"""The sub-query writer's prompt and how its text is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.helpers import SubqueryInput, read_subquery, subquery_writer_prompt
from models.formats.planning import one_line

TEXTS = st.text(max_size=60)


@given(TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=3))
def test_no_part_is_lost(question: str, title: str, text: str, earlier: list[str]) -> None:
    prompt = subquery_writer_prompt(SubqueryInput(question, title, text, tuple(earlier)))
    assert all(one_line(part) in prompt for part in (question, text, *earlier))


@pytest.mark.parametrize(
    "text",
    [
        "Who directed Zone?",
        "  Who directed Zone?\n",
        "Sub-query: Who directed Zone?",
        'Question 2: "Who directed Zone?"',
        "- **Who directed Zone?**",
        "1. Who directed Zone?",
        "Sure, here is the question: Who directed Zone?",
        "“Who directed Zone?”",
    ],
)
def test_what_stands_around_a_question_goes(text: str) -> None:
    assert read_subquery(text) == "Who directed Zone?"


def test_quotes_inside_and_several_lines_stay() -> None:
    assert read_subquery('Who wrote "Zone"?') == 'Who wrote "Zone"?'
    assert read_subquery("Who?\nBecause.") == "Who?\nBecause."


@given(TEXTS)
def test_reading_never_raises_and_settles(text: str) -> None:
    assert isinstance(read_subquery(text), str)
