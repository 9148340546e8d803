"""Which triples a round shows."""

from hypothesis import given
from hypothesis import strategies as st

from models.facts.triple_selection import select_triples
from models.formats.triples import Triple

QUESTION = "Where was the director of Dawn born?"
DIRECTOR = Triple("Dawn", "director", "Ana Lis")
YEAR = Triple("Dawn", "publication date", "1991")
BIRTH = Triple("Ana Lis", "place of birth", "Paris")
NOISE = Triple("Bo Roe", "occupation", "poet")
FIELDS = st.sampled_from(["Dawn", "director", "Ana Lis", "Bo", "1991", "poet"])
TRIPLES = st.lists(st.builds(Triple, FIELDS, FIELDS, FIELDS), max_size=12)


def test_the_closest_stay_in_the_order_they_came() -> None:
    found = [NOISE, YEAR, DIRECTOR]
    assert select_triples(QUESTION, QUESTION, found, 1) == [DIRECTOR]
    assert select_triples(QUESTION, QUESTION, found, 5) == [YEAR, DIRECTOR]


def test_what_shares_no_word_is_taken_only_where_nothing_does() -> None:
    assert select_triples("Who?", "Who?", [NOISE], 5) == [NOISE]
    assert select_triples("Where was Ana Lis born?", QUESTION, [NOISE, BIRTH], 5) == [BIRTH]


def test_what_a_relevant_triple_leads_to_is_relevant() -> None:
    birth = Triple("Ana Lis", "birthplace", "Paris")
    question = "Dawn's director?"
    assert select_triples(question, question, [DIRECTOR, NOISE, birth], 5) == [DIRECTOR, birth]
    assert select_triples("Who?", "Who?", [NOISE, birth], 5, known=[DIRECTOR]) == [birth]


def test_what_earlier_rounds_have_shown_makes_room() -> None:
    found = [DIRECTOR, YEAR, BIRTH]
    subquery = "Where was Ana Lis born?"
    assert select_triples(subquery, QUESTION, found, 1, known=[DIRECTOR, BIRTH]) == [YEAR]


@given(TRIPLES, TRIPLES, st.integers(1, 6))
def test_bounded_distinct_and_new(found: list[Triple], known: list[Triple], limit: int) -> None:
    chosen = select_triples("Who directed Dawn?", QUESTION, found, limit, known)
    assert len(chosen) <= limit and len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(found) - set(known)
    assert bool(chosen) == bool(set(found) - set(known))
    assert chosen == select_triples("Who directed Dawn?", QUESTION, [*found, *found], limit, known)
