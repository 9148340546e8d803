"""Comparisons derived from triples: what they state, and what they leave open."""

from hypothesis import given
from hypothesis import strategies as st

from models.facts.comparisons import MAX_DERIVED_TRIPLES, derive_comparisons, named_subjects
from models.facts.countries import canonical_country
from models.formats.triples import Triple

FIELDS = st.sampled_from(["a", "b", "c", "1900", "7 March 1982", "1982", "American", "US"])
PREDICATES = st.sampled_from(["date of birth", "country", "director"])
TRIPLES = st.lists(st.builds(Triple, FIELDS, PREDICATES, FIELDS), max_size=12)
BORN = "Who was born first, Ann or Bob?"
RELEASED = "Which film came out first, Film A or Film B?"
QUESTIONS = st.sampled_from(
    ["Who is older, a or b or c?", "Are a, b and c from the same country?",
     "Which film has the director born later, a or b?"]
)  # fmt: skip


def test_only_what_the_question_names_and_asks_is_compared() -> None:
    years = {"The Imp (1919 film)": "1919", "Dawn": "1991", "Dawnbreak": "1950", "Night": "1933"}
    facts = [Triple(film, "publication date", year) for film, year in years.items()]
    facts += [Triple(film, "date of birth", "1900") for film in years]
    question = "Which film came out first, the imp (1919 Film) or Dawn?"
    expected = [Triple("The Imp (1919 film)", "publication date earlier than", "Dawn")]
    assert derive_comparisons(facts, question) == expected
    assert derive_comparisons(facts, "When did Dawn and Night come out?") == []
    assert derive_comparisons(facts, "Who is Ed?") == []


def test_the_asked_subject_comes_first_whatever_the_order() -> None:
    facts = [
        Triple("Ann", "date of birth", "March 7, 1982"),
        Triple("Bob", "date of birth", "21 April 1889"),
    ]
    earlier = [Triple("Bob", "date of birth earlier than", "Ann")]
    assert derive_comparisons(facts, BORN) == derive_comparisons(facts[::-1], BORN) == earlier
    later = [Triple("Ann", "date of birth later than", "Bob")]
    assert derive_comparisons(facts, "Who is younger, Bob or Ann?") == later


def test_films_are_compared_by_their_directors() -> None:
    facts = [
        Triple("Born First", "director", "William Wellman"),
        Triple("Sold (1915 film)", "director", "Émile Cohl"),
        Triple("Born First", "country of origin", "France"),
        Triple("Sold (1915 film)", "country of origin", "France"),
        Triple("William A. Wellman", "date of birth", "1896"),
        Triple("Emile Cohl", "date of birth", "1857"),
        Triple("Emile Cohl", "country of citizenship", "French"),
    ]
    older = "Which film has the director who is older, Born First or Sold (1915 Film)?"
    assert derive_comparisons(facts, older) == [
        Triple("Sold (1915 film)", "director date of birth earlier than", "Born First")
    ]
    same = "Are the directors of Born First and Sold from the same country?"
    assert derive_comparisons(facts, same) == []
    facts.append(Triple("William A. Wellman", "country of citizenship", "American"))
    assert derive_comparisons(facts, same) == [
        Triple("Born First", "director country of citizenship different from", "Sold (1915 film)")
    ]


def test_a_lead_that_fits_two_people_is_not_followed() -> None:
    facts = [
        Triple("A1", "director", "W. Lee"),
        Triple("B1", "director", "Bo Yi"),
        Triple("Will Lee", "date of birth", "1900"),
        Triple("Wen Lee", "date of birth", "1910"),
        Triple("Bo Yi", "date of birth", "1905"),
    ]
    assert derive_comparisons(facts, "Which film's director is older, A1 or B1?") == []


def test_the_longest_of_names_within_each_other_is_taken() -> None:
    triples = [Triple("Dawn", "x", "y"), Triple("Dawn of War", "x", "y"), Triple("War", "x", "y")]
    assert named_subjects("Is Dawn of War or Dawn first?", triples) == (
        ["Dawn of War", "Dawn"], "is or first",
    )  # fmt: skip


def test_lifetimes() -> None:
    question = "Who lived longer, Ann or Bob?"
    facts = [
        Triple("Ann", "date of birth", "1900"),
        Triple("Ann", "date of death", "3 May 1950"),
        Triple("Bob", "date of birth", "1 June 1910"),
        Triple("Bob", "date of death", "2 July 1990"),
    ]
    assert derive_comparisons(facts, question) == [Triple("Bob", "lived longer than", "Ann")]
    assert derive_comparisons(facts[1:], question) == []


def test_equal_and_undecided_dates() -> None:
    equal = [
        Triple("Film A", "publication date", "1982"),
        Triple("Film B", "publication date", "1982"),
    ]
    same = [Triple("Film A", "publication date same as", "Film B")]
    assert derive_comparisons(equal, RELEASED) == same
    undecided = [
        Triple("Ann", "date of birth", "1982"),
        Triple("Bob", "date of birth", "7 March 1982"),
    ]
    assert derive_comparisons(undecided, BORN) == []


def test_values_that_contradict_each_other_are_left_out_and_finer_ones_used() -> None:
    other = Triple("Bob", "date of birth", "1950")
    contradiction = [Triple("Ann", "date of birth", "1900"), Triple("Ann", "date of birth", "1960")]
    assert derive_comparisons([*contradiction, other], BORN) == []
    finer = [Triple("Ann", "date of birth", "1950"), Triple("Ann", "date of birth", "7 May 1949")]
    assert derive_comparisons([*finer, other], BORN) == []
    agreeing = [
        Triple("Ann", "date of birth", "1949"),
        Triple("Ann", "date of birth", "7 May 1949"),
    ]
    expected = [Triple("Ann", "date of birth earlier than", "Bob")]
    assert derive_comparisons([*agreeing, other], BORN) == expected


def test_countries_are_compared_after_their_demonyms() -> None:
    facts = [
        Triple("Brown", "country of citizenship", "Canadian"),
        Triple("Yule", "nationality", "Canada"),
        Triple("Smal", "country of citizenship", "Ukraine"),
    ]
    assert derive_comparisons(facts, "Are Brown, Yule and Smal of the same nationality?") == [
        Triple("Brown", "country of citizenship same as", "Yule"),
        Triple("Brown", "country of citizenship different from", "Smal"),
        Triple("Yule", "nationality different from", "Smal"),
    ]
    assert canonical_country("The United States") == canonical_country("American")
    assert canonical_country(" Atlantis ") == "atlantis"


def test_other_values_in_common() -> None:
    facts = [Triple("Ann", "place of birth", "Rome"), Triple("Bob", "place of birth", "rome")]
    assert derive_comparisons(facts, "Were Ann and Bob born in the same place?") == [
        Triple("Ann", "place of birth same as", "Bob")
    ]


@given(TRIPLES, QUESTIONS)
def test_bounded_deterministic_and_new(triples: list[Triple], question: str) -> None:
    derived = derive_comparisons(triples, question)
    assert len(derived) <= MAX_DERIVED_TRIPLES
    assert derived == derive_comparisons(iter(triples), question)
    assert len(set(derived)) == len(derived) and not set(derived) & set(triples)
    assert all(triple.subject != triple.object for triple in derived)
    assert derive_comparisons([*triples, *triples], question) == derived
