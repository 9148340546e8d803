"""Clues as prompted models read and write them: round trips, other writings, no text too much."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.clues import (
    ResolutionInput,
    format_clue,
    format_clues,
    parse_clues,
    prompted_answer,
    prompted_decomposition,
    prompted_resolution,
)
from models.formats.planning import one_line
from models.formats.query_triplets import QueryTriplet, parse_query_triplets

MARKS = st.sampled_from(
    ["Subject:", "Predicate :", "object\\:", "Object:", "Clue 1", "|", "?a", "\\"]
)
FIELD = (
    st.lists(MARKS | st.text(max_size=5), min_size=1, max_size=4)
    .map(" ".join)
    .map(one_line)
    .filter(lambda text: text.strip("*, ") == text and text)
    .filter(lambda text: "searchable" not in text.lower() and "resolved" not in text.lower())
)
CLUES = st.lists(st.builds(QueryTriplet, FIELD, FIELD, FIELD), max_size=4)
BROKEN = st.sampled_from(
    [
        "Subject: Dawn Object: Ana Lis",
        "Subject: Dawn Predicate: director",
        "- **Subject:** Dawn",
        "Subject: Dawn Predicate: Object: Ana Lis",
        "Newly Searchable Clue 1: Subject: Predicate: director Object: ?",
    ]
)
DIRECTOR = QueryTriplet("Dawn", "director", "Ana Lis")
BORN = QueryTriplet("Ana Lis", "place of birth", "?")


@given(CLUES, CLUES)
def test_clues_round_trip(resolved: list[QueryTriplet], searchable: list[QueryTriplet]) -> None:
    parsed = parse_clues(format_clues(resolved, searchable))
    assert (parsed.triplets, parsed.malformed) == (resolved + searchable, 0)


@pytest.mark.parametrize(
    "text",
    [
        "Fully Resolved Clue 1: Subject: Dawn Predicate: director Object: Ana Lis\n"
        "Newly Searchable Clue 1: Subject: Ana Lis Predicate: place of birth Object: ?",
        "**Fully Resolved Clue 1:**\n- **Subject:** Dawn\n- **Predicate:** director\n"
        "- **Object:** Ana Lis\n\n**Newly Searchable Clue 1:**\nSubject: Ana Lis\n"
        "Predicate: place of birth\nObject: ?\n",
        "subject: Dawn, predicate: director, object: Ana Lis newly searchable clue 1: "
        "subject: Ana Lis, predicate: place of birth, object: ?",
        "Sure!\nDawn | director | Ana Lis\nAna Lis | place of birth | ?",
    ],
)
def test_other_writings_are_read(text: str) -> None:
    parsed = parse_clues(text)
    assert (parsed.triplets, parsed.malformed) == ([DIRECTOR, BORN], 0)


@pytest.mark.parametrize(
    ("text", "malformed"),
    [
        ("", 0),
        ("The passages do not tell.", 1),
        ("Subject: Dawn Object: Ana Lis\nSubject: Dawn Predicate: director Object: Ana Lis", 1),
        ("Subject: Dawn Predicate: director Object: Ana Lis Subject: Dus", 1),
        ("Subject: Predicate: Object:", 1),
        ("Predicate: a Object: b", 1),
    ],
)
def test_what_is_no_clue_is_counted(text: str, malformed: int) -> None:
    parsed = parse_clues(text)
    assert parsed.malformed == malformed
    assert parsed.triplets in ([], [DIRECTOR])


@given(st.text() | st.lists(MARKS | st.text(max_size=3)).map("".join))
def test_no_text_is_too_much(text: str) -> None:
    parsed = parse_clues(text)
    assert all(all(triplet.fields) for triplet in parsed.triplets)
    if begun := len(re.findall(r"(?<!\w)subject\**\s*:", text, re.IGNORECASE)):
        assert len(parsed.triplets) + parsed.malformed == begun
    else:
        assert parsed == parse_query_triplets(text)


@given(st.lists(st.builds(QueryTriplet, FIELD, FIELD, FIELD) | BROKEN, min_size=1, max_size=6))
def test_every_clue_is_read_or_counted(pieces: list[QueryTriplet | str]) -> None:
    triplets = [piece for piece in pieces if isinstance(piece, QueryTriplet)]
    text = "\n".join(p if isinstance(p, str) else format_clue(p) for p in pieces)
    parsed = parse_clues(text)
    assert (parsed.triplets, parsed.malformed) == (triplets, len(pieces) - len(triplets))


def test_an_empty_field_is_not_written() -> None:
    with pytest.raises(ValueError, match="empty"):
        format_clue(QueryTriplet("a", " ", "b"))


def test_prompts_hold_what_was_found_and_end_with_what_is_to_be_written() -> None:
    question = "Where was the\ndirector of Dawn born?"
    prompt = prompted_decomposition(question)
    assert prompt.endswith("Question: Where was the director of Dawn born?\nReasoning:\n")
    fuzzy = QueryTriplet("?a", "spouse", "?b")
    given_ = ResolutionInput(question, [BORN], [fuzzy], [DIRECTOR], ["Dawn director Ana Lis"], [])
    lines = prompted_resolution(given_).splitlines()
    start = lines.index("Context Passages:")
    assert lines[start:] == [
        "Context Passages:",
        "Context Propositions:",
        "Dawn director Ana Lis",
        "Original Query: Where was the director of Dawn born?",
        "Previous Resolved Clues:",
        "Subject: Dawn Predicate: director Object: Ana Lis",
        "Searchable Clues:",
        "Subject: Ana Lis Predicate: place of birth Object: ?",
        "Fuzzy Clues:",
        "Subject: ?a Predicate: spouse Object: ?b",
        "Resolved and newly searchable clues:",
    ]
    answer = prompted_answer(question, [DIRECTOR, BORN])
    assert answer.splitlines()[-5:] == [
        "Question: Where was the director of Dawn born?",
        "Key Reasoning Clues:",
        format_clue(DIRECTOR),
        format_clue(BORN),
        "Answer:",
    ]


def test_the_examples_of_the_decomposition_are_in_the_format_that_is_read() -> None:
    examples = parse_query_triplets(prompted_decomposition("?").partition("Examples:")[2])
    assert QueryTriplet("France", "has capital", "?") in examples.triplets
    assert len(examples.triplets) == 8  # the format's own line is the eighth
