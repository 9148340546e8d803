"""Query triplets survive any text, and any text survives the parser."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.query_triplets import (
    ParsedQueryTriplets,
    QueryTriplet,
    TripletState,
    bind,
    filled_in,
    format_query_triplet,
    format_query_triplets,
    name_free,
    parse_query_triplets,
    resolve,
)

TRICKY = st.sampled_from(
    [
        "|",
        " | ",
        "\\",
        "\\|",
        "\n",
        "\r",
        "- ",
        "Triple: ",
        "triples:",
        "* a",
        "?",
        "?a",
        "? b",
        "•",
    ]
)
TEXT = (st.text() | TRICKY | st.builds("{}{}".format, TRICKY, st.text())).map(str.strip)
TRIPLETS = st.builds(QueryTriplet, *[TEXT.filter(bool)] * 3)
BROKEN = st.sampled_from(
    ["a | b", "a | | c", "| b | c", "a | b | c | d", "a | b \\| c", "|", "- a |"]
)
WORDS = st.text("abc ", min_size=1).map(str.strip).filter(bool)
NAMES = st.sampled_from(["?a", "?b", "?c"])
QUERIES = st.lists(
    st.builds(QueryTriplet, WORDS | NAMES, WORDS, WORDS | NAMES | st.just("?")), max_size=5
)

FILM = QueryTriplet("Dawn", "director", "?a")
BIRTH = QueryTriplet("?a", "date of birth", "?")


@given(st.lists(TRIPLETS))
def test_round_trip(triplets: list[QueryTriplet]) -> None:
    text = format_query_triplets(triplets)
    assert parse_query_triplets(text) == ParsedQueryTriplets(triplets, 0)
    assert len(text.split("\n")) == max(len(triplets), 1)


@given(st.text() | st.lists(TRICKY | st.text()).map("".join))
def test_any_text_parses_without_error(text: str) -> None:
    parsed = parse_query_triplets(text)
    lines = [re.sub(r"\\.", "x", line.strip()) for line in text.split("\n")]
    meant = sum("|" in line for line in lines)
    assert len(parsed.triplets) + parsed.malformed == (meant or int(bool(text.strip())))
    written = format_query_triplets(parsed.triplets)
    assert parse_query_triplets(written) == ParsedQueryTriplets(parsed.triplets, 0)


@given(st.lists(TRIPLETS | BROKEN | st.just("Reasoning: none."), min_size=1))
def test_every_line_is_read_or_counted_or_no_triplet(pieces: list[QueryTriplet | str]) -> None:
    triplets = [piece for piece in pieces if isinstance(piece, QueryTriplet)]
    broken = sum(isinstance(piece, str) and "|" in piece for piece in pieces)
    text = "\n".join(p if isinstance(p, str) else format_query_triplet(p) for p in pieces)
    malformed = broken if triplets or broken else 1
    assert parse_query_triplets(text) == ParsedQueryTriplets(triplets, malformed)


@pytest.mark.parametrize("field", ["", " ", "\n"])
def test_an_empty_field_is_not_written(field: str) -> None:
    with pytest.raises(ValueError, match=r"write \? where"):
        format_query_triplet(QueryTriplet("Dawn", "director", field))


@pytest.mark.parametrize(
    ("text", "good", "malformed"),
    [
        ("", 0, 0),
        ("  \n", 0, 0),
        ("I do not know.", 0, 1),
        ("Triple: France | has capital | ?", 1, 0),
        ("Reasoning: the director is needed.\nTriples:\nDawn|director|?a\n?a | born | ?", 2, 0),
        ("- Dawn | director | ?a\n* ?a | born | ?", 2, 0),
        ("Dawn | director", 0, 1),
        ("Dawn | director | ?a | ?b", 0, 1),
        ("Dawn | | ?a", 0, 1),
        ("Dawn | director | ?a\n?a | date of b", 1, 1),
        ("Dawn \\| Dusk | director | ?a", 1, 0),
        ("東京 | 国 | ?", 1, 0),
        ("x" * 10_000, 0, 1),
        ("|" * 10_000, 0, 1),
    ],
)
def test_what_a_model_may_write(text: str, good: int, malformed: int) -> None:
    parsed = parse_query_triplets(text)
    assert (len(parsed.triplets), parsed.malformed) == (good, malformed)


def test_the_examples_of_the_paper() -> None:
    written = """\
MovieA | is directed by | ?directorA
MovieB | is directed by | ?directorB
?directorA | was born in | ?
?directorB | was born in | ?"""
    states = [triplet.state for triplet in parse_query_triplets(written).triplets]
    assert states == [TripletState.SEARCHABLE] * 2 + [TripletState.FUZZY] * 2
    best = parse_query_triplets("? | won Best Picture | 2020\n? | is directed by | ?").triplets
    assert [triplet.state for triplet in best] == [TripletState.SEARCHABLE, TripletState.FUZZY]
    assert best[0].proposition == "won Best Picture 2020"
    assert QueryTriplet("France", "has capital", "Paris").state is TripletState.RESOLVED


def test_binding_reaches_every_triplet_that_holds_the_placeholder() -> None:
    triplets = [FILM, BIRTH, QueryTriplet("Dusk", "director", "?b")]
    bound = bind(triplets, {"?a": "Ana Lis"})
    assert bound == [
        QueryTriplet("Dawn", "director", "Ana Lis"),
        QueryTriplet("Ana Lis", "date of birth", "?"),
        triplets[2],
    ]
    assert [triplet.state for triplet in bound] == ["resolved", "searchable", "searchable"]


@given(QUERIES, NAMES, WORDS)
def test_a_bound_placeholder_is_gone(triplets: list[QueryTriplet], name: str, value: str) -> None:
    bound = bind(triplets, {name: value})
    assert not any(name in triplet.placeholders for triplet in bound)
    untouched = [t for t in triplets if name not in t.placeholders]
    assert [t for t, old in zip(bound, triplets, strict=True) if old in untouched] == untouched
    assert bind(bound, {name: "other"}) == bound


@pytest.mark.parametrize("name, value", [("?", "Ana"), ("a", "Ana"), ("?a", " ")])
def test_what_cannot_be_bound_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="cannot be bound"):
        bind([FILM], {name: value})


def test_resolving_a_triplet_binds_its_names_everywhere() -> None:
    filled = filled_in(FILM, QueryTriplet("dawn", "was directed by", "Ana Lis"))
    assert filled == QueryTriplet("Dawn", "director", "Ana Lis")
    assert resolve([FILM, BIRTH], FILM, filled) == [
        filled,
        QueryTriplet("Ana Lis", "date of birth", "?"),
    ]
    last = QueryTriplet("Ana Lis", "date of birth", "?")
    other = QueryTriplet("Dawn", "released", "?")
    born = QueryTriplet("Ana Lis", "date of birth", "3 May 1901")
    # A nameless placeholder means another unknown in every triplet.
    assert resolve([last, other], last, born) == [born, other]


def test_a_fuzzy_triplet_may_be_filled_in_part() -> None:
    fuzzy = QueryTriplet("?film", "director", "?a")
    half = filled_in(fuzzy, QueryTriplet("Dawn", "director", "?"))
    assert half == QueryTriplet("Dawn", "director", "?a")
    assert half.state is TripletState.SEARCHABLE


@pytest.mark.parametrize(
    "written",
    [
        QueryTriplet("Dusk", "director", "Ana Lis"),
        QueryTriplet("Dawn", "director", "?"),
        QueryTriplet("Dawn", "director", "?director"),
    ],
)
def test_what_fills_nothing_is_none(written: QueryTriplet) -> None:
    assert filled_in(FILM, written) is None


@given(QUERIES, st.randoms())
def test_name_free_forms_do_not_hang_on_names_or_order(
    triplets: list[QueryTriplet], random: "object"
) -> None:
    renamed = bind(triplets, {"?a": "?director", "?b": "?x", "?c": "?2"})
    shuffled = list(renamed)
    random.shuffle(shuffled)
    assert sorted(name_free(shuffled)) == sorted(name_free(triplets))


def test_name_free_forms_keep_what_belongs_together() -> None:
    assert name_free([FILM, BIRTH]) == [
        QueryTriplet("Dawn", "director", "?"),
        QueryTriplet("?(Dawn, director)", "date of birth", "?"),
    ]
    other = QueryTriplet("Dusk", "director", "?b")
    swapped = QueryTriplet("?b", "date of birth", "?")
    assert name_free([FILM, other, BIRTH]) != name_free([FILM, other, swapped])
    both = [QueryTriplet("?a", "director", "Ana"), QueryTriplet("?a", "author", "Bo")]
    assert name_free(both) == [
        QueryTriplet("?(author, Bo)", "director", "Ana"),
        QueryTriplet("?", "author", "Bo"),
    ]
