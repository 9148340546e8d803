"""Sub-questions in words: filled hops and relations that are no nouns."""

import pytest

from models.facts.subqueries import fill_hops, natural_question


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
