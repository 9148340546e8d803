"""Facts become claims that read as sentences, and come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.conditions import (
    _CLAIMS,
    ConditionTriplet,
    anchor,
    claim,
    fact_of,
    relation_words,
)
from models.formats.triples import Triple

NAMES = st.from_regex(r"[A-Z][a-z]{2,6}( [A-Z][a-z]{2,6}){0,2}", fullmatch=True)
OBJECTS = NAMES | st.from_regex(r"[1-9][0-9]? (May|June) 19[0-9]{2}", fullmatch=True)
RELATIONS = st.sampled_from([*_CLAIMS, "shipping port", "musicalArtist"])


@given(NAMES, RELATIONS, OBJECTS)
def test_a_claim_gives_its_fact_back(subject: str, relation: str, value: str) -> None:
    fact = Triple(subject, relation_words(relation), value)
    triplet = ConditionTriplet(anchor(subject, fact.predicate), "", claim(fact))
    assert fact_of(triplet) == fact


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [
        (Triple("A", "date of birth", "3 May 1921"), "A was born on 3 May 1921."),
        (Triple("A", "date of birth", "1921"), "A was born in 1921."),
        (Triple("A", "date of birth", "May 1921"), "A was born in May 1921."),
        (Triple("A", "birthPlace", "B"), "The birth place of A is B."),
        (Triple("A", "performer", "B Inc."), "A was performed by B Inc."),
    ],
)
def test_claims_read_as_sentences(fact: Triple, sentence: str) -> None:
    assert claim(fact) == sentence


@pytest.mark.parametrize(
    ("condition", "conclusion", "fact"),
    [
        ("A; date of birth", "A was born in 1921.", Triple("A", "date of birth", "1921")),
        ("A; director", "A's director was B.", Triple("A", "director", "'s director was B")),
        (
            "A; famous for its bridge",
            "A has a bridge.",
            Triple("A", "famous for its bridge", "has a bridge"),
        ),
        ("A", "A is a town.", Triple("A", "is", "is a town")),
        ("A; director", "B directed it.", Triple("A", "director", "B directed it")),
        ("A; director", "A", Triple("A", "director", "A")),
        ("A; B; c", "The c of A; B is D", Triple("A; B", "c", "D")),
    ],
)
def test_claims_in_other_words_keep_what_they_say(
    condition: str, conclusion: str, fact: Triple
) -> None:
    assert fact_of(ConditionTriplet(condition, "", conclusion)) == fact


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_triplet_gives_a_fact_of_its_own_words(condition: str, conclusion: str) -> None:
    fact = fact_of(ConditionTriplet(condition, "", conclusion))
    assert condition in (f"{fact.subject}; {fact.predicate}", fact.subject, f"; {fact.subject}")
    assert fact.object in conclusion
    assert fact.object or conclusion.strip() in ("", ".")
