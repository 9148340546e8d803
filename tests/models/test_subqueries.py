"""Sub-questions in words: filled hops, relations that are no nouns, and facts read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.facts.subqueries import (
    _TEMPLATES,
    answered_triple,
    asked_relation,
    fill_hops,
    natural_question,
    relation_question,
)
from models.formats.triples import Triple


@pytest.mark.parametrize(
    ("question", "answers", "filled"),
    [
        ("#1 >> spouse", ["Ana Lis"], "Ana Lis >> spouse"),
        ("How were the #1 expelled from #2 ?", ["the Celts", "the Isles"],
         "How were the Celts expelled from the Isles ?"),
        ("The #1 has what character?", ["The Simpsons"], "The Simpsons has what character?"),
        ("who sang with #1", ["The The"], "who sang with The The"),
        ("did the #1 sing", ["The"], "did the The sing"),
        ("breathe #1", ["the air"], "breathe the air"),
        ("Who is #3 ?", ["Ana"], "Who is #3 ?"),
    ],
)  # fmt: skip
def test_hops_are_filled(question: str, answers: list[str], filled: str) -> None:
    assert fill_hops(question, answers) == filled


@pytest.mark.parametrize(
    ("step", "question"),
    [
        ("UHF >> distributed by", "Who distributed UHF?"),
        ("Green County >> shares border with", "What shares a border with Green County?"),
        ("Dawn >> record label", "What is the record label of Dawn?"),
        ("when was Dawn released", "When was Dawn released?"),
    ],
)
def test_steps_read_as_questions(step: str, question: str) -> None:
    assert natural_question(step) == question


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Who directed The Zone?", ("The Zone", "director")),
        ("When was Sophie of Hanover born?", ("Sophie of Hanover", "date of birth")),
        ("What is the head of government of Peru?", ("Peru", "head of government")),
        ("What is the record label of Dawn of the Dead?", ("Dawn of the Dead", "record label")),
        ("What is the father of Otto Of Limburg?", ("Otto Of Limburg", "father")),
        ("Who is the King Of England?", ("England", "King")),
        ("Who is the father of the count Of Ord?", ("the count Of Ord", "father")),
        ("In what year was radium discovered?", None),
    ],
)
def test_what_a_question_asks_for_is_read(question: str, asked: tuple[str, str] | None) -> None:
    assert asked_relation(question) == asked


@given(
    st.from_regex(r"(?i)\A(what|who) (is|was) the [a-z ]{1,9} of [a-z ]{1,9}( of [a-z]{1,9})?\?\Z"),
    st.text(max_size=20),
)
def test_any_question_is_read_or_not(question: str, answer: str) -> None:
    asked = asked_relation(question)
    assert asked is not None
    assert all(each in question for each in asked)
    assert answered_triple(question, answer, "Title").predicate


@pytest.mark.parametrize("relation", [*_TEMPLATES, "record label", "head of government"])
def test_a_relation_comes_back_from_its_question(relation: str) -> None:
    assert asked_relation(relation_question(relation, "The Zone of Ana")) == (
        "The Zone of Ana",
        relation,
    )


@pytest.mark.parametrize(
    ("subquery", "title", "fact"),
    [
        ("Who directed Ana?", "Ana (film)", Triple("Ana", "director", "X")),
        ("Who wrote the book?", "The Book", Triple("X", "wrote", "the book")),
        (
            "In what year was radium found?",
            "Radium",
            Triple("Radium", "year was radium found", "X"),
        ),
        ("What was found in ore?", "X", Triple("What was found in ore", "is", "X")),
        ("What was found?", "", Triple("What was found", "was found", "X")),
        ("Where did he teach?", "Physics › Ana Lis", Triple("Ana Lis", "did he teach", "X")),
    ],
)
def test_an_answer_states_a_fact(subquery: str, title: str, fact: Triple) -> None:
    assert answered_triple(subquery, "X", title) == fact
