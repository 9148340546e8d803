"""Condition triplets survive any text, and any text survives the parser."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.conditions import (
    ConditionTriplet,
    ParsedConditions,
    format_condition,
    format_conditions,
    parse_conditions,
)

TRICKY = st.sampled_from(["[C] a [P] b [R] c", "[P]", "[ R ]", "\\", "\n", "[", "]", "[C", "\\[C]"])
TEXT = (st.text() | TRICKY | st.builds("{}{}".format, TRICKY, st.text())).map(str.strip)
TRIPLETS = st.builds(ConditionTriplet, TEXT.filter(bool), TEXT, TEXT.filter(bool))
BROKEN = st.sampled_from(
    [
        "[C] a [R] c",
        "[C] a [P] b",
        "[C] a [R] c [P] b",
        "[C] a [P] b [P] b [R] c",
        "[C] [P] b [R] c",
        "[C] a [P] b [R]",
        "[ C ] a",
    ]
)


@given(st.lists(TRIPLETS))
def test_round_trip(triplets: list[ConditionTriplet]) -> None:
    text = format_conditions(triplets)
    assert parse_conditions(text) == ParsedConditions(triplets, 0)
    assert len(text.split("\n")) == max(len(triplets), 1)


@given(st.text() | st.lists(TRICKY | st.text()).map(" ".join))
def test_any_text_parses_without_error(text: str) -> None:
    parsed = parse_conditions(text)
    begun = len(re.findall(r"\[\s*C\s*\]", re.sub(r"(?s)\\.", "x", text)))
    assert len(parsed.triplets) + parsed.malformed == (begun or int(bool(text.strip())))
    assert parse_conditions(format_conditions(parsed.triplets)).triplets == parsed.triplets


@given(st.lists(TRIPLETS | BROKEN, min_size=1), st.sampled_from([" ", "\n", "\n\n"]))
def test_every_piece_is_read_or_counted(pieces: list[ConditionTriplet | str], gap: str) -> None:
    triplets = [piece for piece in pieces if isinstance(piece, ConditionTriplet)]
    text = gap.join(p if isinstance(p, str) else format_condition(p) for p in pieces)
    assert parse_conditions(text) == ParsedConditions(triplets, len(pieces) - len(triplets))


def test_the_template_of_equation_8() -> None:
    triplet = ConditionTriplet("Harry Potter; author", "It was written by her.", "J.K. Rowling.")
    written = "[C] Harry Potter; author [P] It was written by her. [R] J.K. Rowling."
    assert format_condition(triplet) == written
    assert parse_conditions("Triplets:\n" + written) == ParsedConditions([triplet], 0)


def test_an_empty_proof_keeps_its_tag() -> None:
    triplet = ConditionTriplet("a", "", "b")
    assert format_condition(triplet) == "[C] a [P] [R] b"
    assert parse_conditions("[C] a [P] [R] b").triplets == [triplet]


@pytest.mark.parametrize(
    "triplet", [ConditionTriplet(" ", "b", "c"), ConditionTriplet("a", "b", "")]
)
def test_an_empty_condition_or_conclusion_is_not_written(triplet: ConditionTriplet) -> None:
    with pytest.raises(ValueError, match="need text"):
        format_condition(triplet)


@pytest.mark.parametrize(
    ("text", "good", "malformed"),
    [
        ("", 0, 0),
        ("  \n", 0, 0),
        ("No tag at all.", 0, 1),
        ("[P] b [R] c", 0, 1),
        ("[C] a [R] c", 0, 1),
        ("[C] a [P] b", 0, 1),
        ("[C] a [R] c [P] b", 0, 1),
        ("[C] a [P] b [P] b [R] c", 0, 1),
        ("[C] a [C] a [P] b [R] c", 1, 1),
        ("[C] a [P] [C] x [P] y [R] z [R] c", 0, 2),
        ("[C]  [P] b [R] c", 0, 1),
        ("[C] a [P] b [R] ", 0, 1),
        ("[C] a [P] b [R] c [C] d [P] [R] e", 2, 0),
        ("[ C ] a [P] b [R] c", 1, 0),
        ("[c] a [p] b [r] c", 0, 1),
        ("[C] 東京; 国 [P] 東京は日本にある。 [R] 東京は日本にある。", 1, 0),
        ("[C] a [P] " + "word " * 2000 + "[R] c", 1, 0),
        ("x" * 10_000, 0, 1),
    ],
)
def test_what_a_model_may_write(text: str, good: int, malformed: int) -> None:
    parsed = parse_conditions(text)
    assert (len(parsed.triplets), parsed.malformed) == (good, malformed)
