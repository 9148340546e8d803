"""Comparisons derived from triples: what they state, and what they leave open."""

from hypothesis import given
from hypothesis import strategies as st

from models.country_names import canonical_country
from models.derived_facts import MAX_DERIVED_TRIPLES, derive_comparisons
from models.formats.triples import Triple

FIELDS = st.sampled_from(["a", "b", "c", "1900", "7 March 1982", "1982", "American", "US"])
PREDICATES = st.sampled_from(["date of birth", "country", "director"])
TRIPLES = st.lists(st.builds(Triple, FIELDS, PREDICATES, FIELDS), max_size=12)


def test_earlier_date_comes_first_whatever_the_form_and_order() -> None:
    facts = [
        Triple("Ann", "date of birth", "March 7, 1982"),
        Triple("Bob", "date of birth", "21 April 1889"),
    ]
    expected = [Triple("Bob", "date of birth earlier than", "Ann")]
    assert derive_comparisons(facts) == expected
    assert derive_comparisons(facts[::-1]) == expected


def test_equal_and_undecided_dates() -> None:
    equal = [
        Triple("Film A", "publication date", "1982"),
        Triple("Film B", "publication date", "1982"),
    ]
    assert derive_comparisons(equal) == [Triple("Film A", "publication date same as", "Film B")]
    undecided = [Triple("a", "date of death", "1982"), Triple("b", "date of death", "7 March 1982")]
    assert derive_comparisons(undecided) == []


def test_values_that_contradict_each_other_are_left_out_and_finer_ones_used() -> None:
    other = Triple("b", "date of birth", "1950")
    contradiction = [Triple("a", "date of birth", "1900"), Triple("a", "date of birth", "1960")]
    assert derive_comparisons([*contradiction, other]) == []
    finer = [Triple("a", "date of birth", "1950"), Triple("a", "date of birth", "7 May 1949")]
    assert derive_comparisons([*finer, other]) == []
    agreeing = [Triple("a", "date of birth", "1949"), Triple("a", "date of birth", "7 May 1949")]
    assert derive_comparisons([*agreeing, other]) == [
        Triple("a", "date of birth earlier than", "b")
    ]


def test_countries_are_compared_after_their_demonyms() -> None:
    facts = [
        Triple("Brown", "country of citizenship", "Canadian"),
        Triple("Yule", "country of citizenship", "Canada"),
        Triple("Smal", "country of citizenship", "Ukraine"),
    ]
    assert derive_comparisons(facts) == [
        Triple("Brown", "country of citizenship same as", "Yule"),
        Triple("Brown", "country of citizenship different from", "Smal"),
        Triple("Yule", "country of citizenship different from", "Smal"),
    ]
    assert canonical_country("The United States") == canonical_country("American")
    assert canonical_country(" Atlantis ") == "atlantis"


def test_no_comparison_across_predicates_or_of_other_values() -> None:
    facts = [
        Triple("a", "date of birth", "1900"),
        Triple("b", "date of death", "1950"),
        Triple("a", "director", "x"),
        Triple("b", "director", "y"),
    ]
    assert derive_comparisons(facts) == []


@given(TRIPLES)
def test_bounded_deterministic_and_new(triples: list[Triple]) -> None:
    derived = derive_comparisons(triples)
    assert len(derived) <= MAX_DERIVED_TRIPLES
    assert derived == derive_comparisons(iter(triples))
    assert len(set(derived)) == len(derived) and not set(derived) & set(triples)
    assert all(triple.subject != triple.object for triple in derived)
    assert derive_comparisons([*triples, *triples]) == derived
