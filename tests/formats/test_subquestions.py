"""Trig-Nav's prompts and parsers: what models write is read as far as it goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.prompts import is_insufficient
from models.formats.query_triplets import parse_query_triplets
from models.formats.subquestions import (
    DECOMPOSE_INSTRUCTION,
    RECALL_INSTRUCTION,
    SubAnswer,
    parse_recall,
    parse_subquestions,
    recall_prompt,
    sub_answers_prompt,
    subquestions_prompt,
)
from models.formats.triples import Triple


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("enough", []),
        ("Enough.", []),
        ("- Who directed Dawn?\n2. Who wrote it?\n\nThat is all.",
         ["Who directed Dawn?", "Who wrote it?"]),
        ("Sub-question: Who directed Dawn?\nWho directed Dawn?", ["Who directed Dawn?"]),
        ("誰が監督しましたか？", ["誰が監督しましたか？"]),
        ("enough? Who directed Dawn?", ["enough? Who directed Dawn?"]),
        ("not enough", None),
        ("", None),
        ("???", None),
        ("Where was he born", None),
        (f"{'very ' * 100}long?", None),
    ],
)  # fmt: skip
def test_judgements_as_models_write_them(text: str, missing: list[str] | None) -> None:
    assert parse_subquestions(text).missing == missing


@given(st.text())
def test_no_text_raises(text: str) -> None:
    parse_subquestions(text)
    parse_recall(text)
    is_insufficient(text)


def test_prompts_as_a_model_reads_them() -> None:
    fact = Triple("Dawn", "director", "Ana Lis")
    assert recall_prompt("Who\ndirected?") == "Question: Who directed?\nKnown facts:\n"
    assert parse_recall("Dawn | director | Ana Lis\n? | x | y\nDawn | director | Ana Lis") == [fact]
    assert subquestions_prompt("Who?", [fact], ["Dawn: A film."]) == (
        "Passage: Dawn: A film.\nClaimed: Dawn | director | Ana Lis\nQuestion: Who?\n"
        "Sub-questions:\n"
    )
    answers = [SubAnswer("Who directed Dawn?", (fact,)), SubAnswer("Where?", text="in Brill")]
    assert sub_answers_prompt("Who?", answers, [fact]) == (
        "Known:\nDawn | director | Ana Lis\nSub-question: Who directed Dawn?\n"
        "Dawn | director | Ana Lis\nSub-question: Where?\nFound: in Brill\nQuestion: Who?\n"
        "Answer:\n"
    )


def test_the_examples_of_the_instructions_parse() -> None:
    for instruction, count in ((RECALL_INSTRUCTION, 2), (DECOMPOSE_INSTRUCTION, 4)):
        lines = [line for line in instruction.splitlines() if "subject |" not in line]
        assert len(parse_query_triplets("\n".join(lines)).triplets) == count


@pytest.mark.parametrize(
    ("answer", "says_so"),
    [("", True), (" insufficient information", True), ("Insufficient information.", True),
     ("Insufficient", False), ("Brill", False)],
)  # fmt: skip
def test_what_says_that_nothing_is_told(answer: str, says_so: bool) -> None:
    assert is_insufficient(answer) is says_so
