"""Triples survive any text, and any text survives the parser."""

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


@given(st.lists(TRIPLES))
def test_round_trip(triples: list[Triple]) -> None:
    assert parse_triples(format_triples(triples)) == ParsedTriples(triples, 0)


@given(st.text() | st.lists(TRICKY).map("".join))
def test_any_text_parses_without_error(text: str) -> None:
    parsed = parse_triples(text)
    assert parsed.malformed >= 0
    assert parse_triples(format_triples(parsed.triples)).triples == parsed.triples


@given(TRIPLES, st.integers(min_value=1, max_value=60))
def test_a_cut_text_never_gains_triples(triple: Triple, cut: int) -> None:
    text = format_triples([Triple("a", "b", "c"), triple])
    parsed = parse_triples(text[: len(text) - cut])
    assert len(parsed.triples) <= 2


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
