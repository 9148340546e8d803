"""Comparisons derived from triples: what they state, and what they leave open."""

from hypothesis import given
from hypothesis import strategies as st

from models.country_names import canonical_country
from models.derived_facts import MAX_DERIVED_TRIPLES, derive_comparisons
from models.formats.triples import Triple

FIELDS = st.sampled_from(["a", "b", "c", "1900", "7 March 1982", "1982", "American", "US"])
PREDICATES = st.sampled_from(["date of birth", "country", "director"])
TRIPLES = st.lists(st.builds(Triple, FIELDS, PREDICATES, FIELDS), max_size=12)
QUESTION = "Ann or Bob or Film A or Film B or a or b or c or Brown or Yule or Smal?"


def compared(triples: list[Triple]) -> list[Triple]:
    """The comparisons where the question names every subject."""
    return derive_comparisons(triples, QUESTION)


def test_only_the_question_s_subjects_and_what_they_lead_to_are_compared() -> None:
    years = {"The Imp (1919 film)": "1919", "Dawn": "1991", "Dawnbreak": "1950", "Night": "1933"}
    facts = [Triple(film, "publication date", year) for film, year in years.items()]
    facts += [
        Triple("Dawn", "director", "Ana Lis"),
        Triple("The Imp (1919 film)", "director", "Bo"),
        Triple("Night", "director", "Cy"),
        *(Triple(person, "date of birth", born) for person, born in
          (("Ana Lis", "1950"), ("Bo", "1890"), ("Cy", "1901"))),
    ]  # fmt: skip
    question = "Which film came out first, the imp (1919 Film) or Dawn?"
    assert derive_comparisons(facts, question) == [
        Triple("The Imp (1919 film)", "publication date earlier than", "Dawn"),
        Triple("Bo", "date of birth earlier than", "Ana Lis"),
    ]
    assert derive_comparisons(facts, "Who is Ed?") == []


def test_earlier_date_comes_first_whatever_the_form_and_order() -> None:
    facts = [
        Triple("Ann", "date of birth", "March 7, 1982"),
        Triple("Bob", "date of birth", "21 April 1889"),
    ]
    expected = [Triple("Bob", "date of birth earlier than", "Ann")]
    assert compared(facts) == expected
    assert compared(facts[::-1]) == expected


def test_equal_and_undecided_dates() -> None:
    equal = [
        Triple("Film A", "publication date", "1982"),
        Triple("Film B", "publication date", "1982"),
    ]
    assert compared(equal) == [Triple("Film A", "publication date same as", "Film B")]
    undecided = [Triple("a", "date of death", "1982"), Triple("b", "date of death", "7 March 1982")]
    assert compared(undecided) == []


def test_values_that_contradict_each_other_are_left_out_and_finer_ones_used() -> None:
    other = Triple("b", "date of birth", "1950")
    contradiction = [Triple("a", "date of birth", "1900"), Triple("a", "date of birth", "1960")]
    assert compared([*contradiction, other]) == []
    finer = [Triple("a", "date of birth", "1950"), Triple("a", "date of birth", "7 May 1949")]
    assert compared([*finer, other]) == []
    agreeing = [Triple("a", "date of birth", "1949"), Triple("a", "date of birth", "7 May 1949")]
    assert compared([*agreeing, other]) == [Triple("a", "date of birth earlier than", "b")]


def test_countries_are_compared_after_their_demonyms() -> None:
    facts = [
        Triple("Brown", "country of citizenship", "Canadian"),
        Triple("Yule", "country of citizenship", "Canada"),
        Triple("Smal", "country of citizenship", "Ukraine"),
    ]
    assert compared(facts) == [
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
    assert compared(facts) == []


@given(TRIPLES)
def test_bounded_deterministic_and_new(triples: list[Triple]) -> None:
    derived = compared(triples)
    assert len(derived) <= MAX_DERIVED_TRIPLES
    assert derived == derive_comparisons(iter(triples), QUESTION)
    assert len(set(derived)) == len(derived) and not set(derived) & set(triples)
    assert all(triple.subject != triple.object for triple in derived)
    assert compared([*triples, *triples]) == derived
