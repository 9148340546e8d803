"""Variable locking: what a model's clues do to the open triplets of a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.loops.t2rag_steps import in_state, settle
from models.formats.query_triplets import QueryTriplet, TripletState, parse_query_triplets

VALUES = st.sampled_from(
    ["Dawn", "Ana", "Brill", "?", "?a", "?b", "director", "born in", "unknown"]
)
TRIPLETS = st.lists(st.builds(QueryTriplet, VALUES, VALUES, VALUES), max_size=6)


def triplets(*lines: str) -> list[QueryTriplet]:
    return parse_query_triplets("\n".join(lines)).triplets


def settled(before: list[QueryTriplet], *lines: str) -> list[str]:
    return [" | ".join(t.fields) for t in settle(before, triplets(*lines)).triplets]


CHAIN = triplets("Dawn | director | ?a", "?a | place of birth | ?")


def test_a_value_is_carried_into_every_triplet_that_holds_its_name() -> None:
    assert settled(CHAIN, "Dawn | director | Ana Lis") == [
        "Dawn | director | Ana Lis",
        "Ana Lis | place of birth | ?",
    ]


def test_a_clue_that_the_model_does_not_repeat_stays_open() -> None:
    before = triplets("Dawn | director | ?a", "Dusk | director | ?b", "?b | born in | ?")
    assert settled(before, "Dusk | director | Bo") == [
        "Dawn | director | ?a",
        "Dusk | director | Bo",
        "Bo | born in | ?",
    ]
    assert settle(before, []).triplets == before


@pytest.mark.parametrize(
    "clue",
    [
        "Dusk | director | Bo",  # about something else
        "Dawn | director | ?",  # fills nothing
        "Dawn | director | ?x",
        "Dawn | director | Unknown",
        "Dawn | director | not specified in the passages",
        "Dawn | director | N/A",
        "Ana Lis | likes | Brill",  # about nothing that is asked
    ],
)
def test_what_fills_no_open_triplet_is_passed_over(clue: str) -> None:
    assert settle(CHAIN, triplets(clue)).triplets == CHAIN


def test_a_known_entity_may_be_called_unknown() -> None:
    before = triplets("Unknown | director | ?")
    assert settled(before, "Unknown | director | Jaume") == ["Unknown | director | Jaume"]


def test_a_fuzzy_triplet_becomes_searchable_or_resolved() -> None:
    assert settled(CHAIN, "Dawn | director | Ana", "Ana | place of birth | Brill") == [
        "Dawn | director | Ana",
        "Ana | place of birth | Brill",
    ]
    assert settled(CHAIN, "Ana | place of birth | ?") == [
        "Dawn | director | Ana",
        "Ana | place of birth | ?",
    ]


def test_the_closest_predicate_is_matched_first() -> None:
    before = triplets("Ana | date of birth | ?", "Ana | place of birth | ?", "Ana | spouse | ?")
    assert settled(before, "Ana | place of birth | Brill", "Ana | date of birth | 1901") == [
        "Ana | date of birth | 1901",
        "Ana | place of birth | Brill",
        "Ana | spouse | ?",
    ]


def test_a_reworded_predicate_is_taken_where_nothing_else_is_left_for_it() -> None:
    before = triplets("Ana | place of birth | ?", "Ana | spouse | ?")
    assert settled(before, "Ana | was born in | Brill", "ana | spouse | Bo") == [
        "Ana | place of birth | Brill",
        "Ana | spouse | Bo",
    ]


def test_nameless_placeholders_mean_another_thing_in_every_triplet() -> None:
    before = triplets("? | won | Prize", "? | directed by | ?")
    assert settled(before, "Dawn | won | Prize") == ["Dawn | won | Prize", "? | directed by | ?"]
    assert settled(before, "Dawn | won | Prize", "Dawn | directed by | ?") == [
        "Dawn | won | Prize",
        "Dawn | directed by | ?",
    ]


def test_one_placeholder_in_two_meanings_is_two_things() -> None:
    before = triplets("Dawn | director | ?x", "Dusk | director | ?x", "?x | born in | ?")
    result = settle(before, triplets("Dawn | director | Ana", "Dusk | director | Bo"))
    assert [" | ".join(t.fields) for t in result.triplets] == [
        "Dawn | director | Ana",
        "Dusk | director | Bo",
        "Ana | born in | ?",
    ]
    assert result.notes == ["?x was found to be 'Ana' and 'Bo': two things"]
    same = settle(before, triplets("Dawn | director | Ana", "Dusk | director | ana"))
    assert same.notes == []


def test_what_nothing_was_read_of_is_noted() -> None:
    before = triplets("?a | director | Ana", "?a | screenwriter | Bo")
    one = settle(before, triplets("Dawn | director | Ana"))
    assert one.triplets == triplets("Dawn | director | Ana", "Dawn | screenwriter | Bo")
    assert one.notes == ["not read but inferred: Dawn | screenwriter | Bo"]
    assert settle(before, one.triplets).notes == []


@given(TRIPLETS, TRIPLETS)
def test_settling_never_raises_and_never_opens(
    before: list[QueryTriplet], written: list[QueryTriplet]
) -> None:
    after = settle(before, written).triplets
    resolved = in_state(before, TripletState.RESOLVED)
    assert set(resolved) <= set(after)
    assert len(after) <= len(before)
    assert sum(len(t.placeholders) for t in after) <= sum(len(t.placeholders) for t in before)
    assert settle(after, []).triplets == after
