"""Triples survive any text, and any text survives the parser."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.triples import (
    ParsedTriples,
    Triple,
    format_triple,
    format_triples,
    parse_triples,
)

TRICKY = st.sampled_from(
    ["(S> a| P> b| O> c)", "), (S>", "|", "\\", "(<S> x", "a (b", "c) d", "'", "]"]
)
FIELDS = (
    (st.text(min_size=1) | TRICKY | st.builds("{}{}".format, TRICKY, st.text()))
    .map(str.strip)
    .filter(bool)
)
TRIPLES = st.builds(Triple, FIELDS, FIELDS, FIELDS)
BROKEN = st.sampled_from(
    [
        "(S> a| P> b)",
        "(S> a| P> b| O> )",
        "(S> | P> b| O> c)",
        "( <S> x",
        "(S> a| P> b| O> c",
        "(S> a| P> b| O> c| O> d)",
        "(S> a| O> c| P> b)",
        "(S> a) | P> b| O> c)",
    ]
)


@given(st.lists(TRIPLES))
def test_round_trip(triples: list[Triple]) -> None:
    assert parse_triples(format_triples(triples)) == ParsedTriples(triples, 0)


@given(st.text() | st.lists(TRICKY).map("".join))
def test_any_text_parses_without_error(text: str) -> None:
    parsed = parse_triples(text)
    if begun := len(re.findall(r"\(\s*<S>|\(\s*S>", text)):
        assert len(parsed.triples) + parsed.malformed == begun
    elif re.search(r"[^\s\[\]]", text):
        assert parsed == ParsedTriples([], 1)
    assert parse_triples(format_triples(parsed.triples)) == ParsedTriples(parsed.triples, 0)


@given(st.lists(TRIPLES | BROKEN, min_size=1), st.sampled_from([", ", "\n", " and ", "', '"]))
def test_every_piece_is_read_or_counted(pieces: list[Triple | str], between: str) -> None:
    triples = [piece for piece in pieces if isinstance(piece, Triple)]
    text = between.join(p if isinstance(p, str) else format_triple(p) for p in pieces)
    assert parse_triples(text) == ParsedTriples(triples, len(pieces) - len(triples))


@given(TRIPLES, st.integers(min_value=1, max_value=60))
def test_a_triple_that_was_cut_is_malformed(triple: Triple, cut: int) -> None:
    first = Triple("a", "b", "c")
    text = format_triples([first, triple])
    kept = text[: max(len(text) - cut, 0)]
    whole = len(kept) >= len(format_triple(first))
    second_begun = len(kept) >= len(format_triple(first) + ", (S>")
    malformed = second_begun if whole else kept != ""
    assert parse_triples(kept) == ParsedTriples([first] if whole else [], int(malformed))


def test_figure_14_reads_as_written() -> None:
    text = (
        "(S> William gerald standridge| P> Birth date| O> November 27, 1953),\n"
        "(S> a| P> b| O> c (d))"
    )
    expected = [
        Triple("William gerald standridge", "Birth date", "November 27, 1953"),
        Triple("a", "b", "c (d)"),
    ]
    assert parse_triples(text) == ParsedTriples(expected, 0)


def test_wikiofgraph_form_is_read() -> None:
    parsed = parse_triples("(<S> Hms albury| <P> Class| <O> Hunt-class), (<S> a| <P> b| <O> c)")
    assert parsed == ParsedTriples(
        [Triple("Hms albury", "Class", "Hunt-class"), Triple("a", "b", "c")], 0
    )


@pytest.mark.parametrize(
    ("text", "triples", "malformed"),
    [
        ("", 0, 0),
        ("[]", 0, 0),
        ("I found none.", 0, 1),
        ("(S> a| P> b)", 0, 1),
        ("(S> a| P> b| O> c), (S> d| P> e| O> f (2013", 1, 1),
        ("(S> a| P> b| O> c), (S> d| P> e| O> f (2013)", 1, 1),
        ("(S> | P> b| O> c)", 0, 1),
        ("(S> a| P> b| O> c| O> d)", 0, 1),
        ("Here: (S> a| P> b| O> c), and (S> a| P> b| O> d).", 2, 0),
    ],
)
def test_malformed_pieces_are_counted(text: str, triples: int, malformed: int) -> None:
    parsed = parse_triples(text)
    assert (len(parsed.triples), parsed.malformed) == (triples, malformed)


def test_empty_field_is_refused_on_writing() -> None:
    with pytest.raises(ValueError, match="empty"):
        format_triple(Triple("a", " ", "c"))
