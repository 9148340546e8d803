"""The shapes of triples by Trig-Nav's eq. 2 to 4, their order and their segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.loops.solving_order import (
    Knowledge,
    associative_score,
    causal_score,
    classify,
    factual_score,
    in_solving_order,
    segment_question,
    segments,
    unknowns,
)
from models.formats.query_triplets import QueryTriplet, parse_query_triplets
from models.formats.subquestions import DECOMPOSE_INSTRUCTION

FIELDS = st.sampled_from(["Dawn", "Ana", "dawn", "?", "?a", "?b", "?c"])
TRIPLETS = st.lists(st.builds(QueryTriplet, FIELDS, st.just("r"), FIELDS), max_size=6, unique=True)


def read(*lines: str) -> list[QueryTriplet]:
    return parse_query_triplets("\n".join(lines)).triplets


@pytest.mark.parametrize(
    ("lines", "fact", "chain", "star", "kind"),
    [
        (["A | p | ?"], 1, 0, 1, Knowledge.FACTUAL),
        (["A | p | ?x", "?x | q | ?"], 0, 1, 1 / 2, Knowledge.ASSOCIATIVE),
        (["A | p | ?x", "?x | q | ?y", "?y | r | ?"], 0, 1, 1 / 3, Knowledge.ASSOCIATIVE),
        (["A | p | ?x", "B | p | ?x", "C | q | ?x"], 0, 0, 1, Knowledge.CAUSAL),
        (["A | p | ?x", "B | p | ?X ", "?x | q | ?"], 0, 1 / 2, 2 / 3, Knowledge.CAUSAL),
        (["?x | director | A", "?x | genre | B"], 0, 0, 1 / 2, Knowledge.CAUSAL),
        # Two nameless unknowns are two things.
        (["A | p | ?", "? | q | B"], 0, 0, 1 / 2, Knowledge.CAUSAL),
        (["A | p | ?", "B | p | ?"], 0, 0, 1 / 2, Knowledge.CAUSAL),
        (["A | p | b ", "B | q | ?"], 0, 1, 1 / 2, Knowledge.ASSOCIATIVE),
    ],
)
def test_kinds_of_knowledge_by_the_equations(
    lines: list[str], fact: float, chain: float, star: float, kind: Knowledge
) -> None:
    segment = read(*lines)
    assert factual_score(segment) == fact
    assert associative_score(segment) == pytest.approx(chain)
    assert causal_score(segment) == pytest.approx(star)
    assert classify(segment) is kind


def test_an_empty_segment_has_no_shape() -> None:
    assert (factual_score([]), associative_score([]), causal_score([])) == (0, 0, 0)


def test_triples_come_in_the_order_in_which_they_can_be_solved() -> None:
    chain = read("?b | r | ?", "?a | q | ?b", "A | p | ?a")
    assert in_solving_order(chain) == chain[::-1]
    circle = read("?a | p | ?b", "?b | q | ?a", "A | p | ?")
    assert in_solving_order(circle) == [circle[2], circle[0], circle[1]]


@given(TRIPLETS)
def test_every_triple_keeps_a_place_and_needs_one_unknown_at_most(
    triplets: list[QueryTriplet],
) -> None:
    ordered = in_solving_order(triplets)
    assert sorted(ordered) == sorted(triplets)
    found: set[str] = set()
    solvable = True
    for triplet in ordered:
        solvable = solvable and len(unknowns(triplet, found)) <= 1
        if solvable:
            found.update(name for name in triplet.placeholders if name != "?")
        else:  # nothing behind the first that cannot be solved can be
            assert len(unknowns(triplet, found)) > 1


@given(TRIPLETS)
def test_segments_share_no_unknown_and_lose_no_triple(triplets: list[QueryTriplet]) -> None:
    groups = segments(triplets)
    assert sorted(t for group in groups for t in group) == sorted(triplets)
    assert all(group == [t for t in triplets if t in group] for group in groups)
    names = [{n for t in group for n in unknowns(t) if n != "?"} for group in groups]
    assert sum(map(len, names)) == len(set().union(*names))


def test_a_segment_in_words() -> None:
    assert segment_question(read("Dawn | director | ?a", "?a | place of birth | ?")) == (
        "What is the director of Dawn? What is the place of birth of ?a?"
    )
    assert segment_question(read("?a | genre | comedy")) == "What has comedy as its genre?"


def test_the_example_of_the_paper_is_a_chain() -> None:
    first = DECOMPOSE_INSTRUCTION.split("Triplets:\n")[1].split("\n\n")[0]
    assert classify(read(*first.splitlines())) is Knowledge.ASSOCIATIVE
