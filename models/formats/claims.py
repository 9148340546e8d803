"""Facts as condition triplets and back: a claim in one sentence under an anchor to find it by."""

import re

from models.formats.conditions import ConditionTriplet
from models.formats.triples import Triple

_CLAIMS = {
    "director": "{s} was directed by {o}",
    "date of birth": "{s} was born on {o}",
    "date of death": "{s} died on {o}",
    "place of birth": "{s} was born in {o}",
    "place of death": "{s} died in {o}",
    "father": "The father of {s} is {o}",
    "mother": "The mother of {s} is {o}",
    "spouse": "{s} was married to {o}",
    "child": "{o} is a child of {s}",
    "sibling": "{o} is a sibling of {s}",
    "country of citizenship": "The country of citizenship of {s} is {o}",
    "country of origin": "The country of origin of {s} is {o}",
    "country": "{s} is in the country {o}",
    "publication date": "{s} was released on {o}",
    "performer": "{s} was performed by {o}",
    "composer": "The composer of {s} is {o}",
    "author": "{s} was written by {o}",
    "screenwriter": "The screenwriter of {s} is {o}",
    "educated at": "{s} was educated at {o}",
    "employer": "{s} worked for {o}",
    "place of burial": "{s} is buried in {o}",
    "inception": "{s} was founded on {o}",
    "founded by": "{s} was founded by {o}",
    "award received": "{s} received the award {o}",
    "cause of death": "{s} died of {o}",
    "publisher": "{s} was published by {o}",
    "producer": "{s} was produced by {o}",
    "creator": "{s} was created by {o}",
    "occupation": "The occupation of {s} is {o}",
    "member of sports team": "{s} played for {o}",
    "located in the administrative territorial entity": "{s} is located in {o}",
    "headquarters location": "The headquarters of {s} is in {o}",
    "owned by": "{s} is owned by {o}",
    "part of": "{s} is part of {o}",
    "instance of": "{s} is {o}",
    "cast member": "{o} is a cast member of {s}",
    "genre": "The genre of {s} is {o}",
    "record label": "The record label of {s} is {o}",
    "capital": "The capital of {s} is {o}",
}
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOT_WORD = re.compile(r"[\W_]+")
_ONLY_A_YEAR = re.compile(r"(?:c(?:irca|\.)? ?)?\d{3,4}s?(?: BC)?|[A-Z][a-z]+ \d{4}")


def claim(fact: Triple) -> str:
    """A fact as a sentence that can be read alone."""
    pattern = _pattern(relation_words(fact.predicate))
    if _ONLY_A_YEAR.fullmatch(fact.object):
        pattern = pattern.replace(" on {o}", " in {o}")
    return f"{pattern.format(s=fact.subject, o=fact.object).rstrip('.')}."


def relation_words(predicate: str) -> str:
    """A predicate in lower case with words apart: `birthDate` and `birth_date` are one."""
    return " ".join(_NOT_WORD.sub(" ", _CAMEL.sub(" ", predicate)).casefold().split())


def anchor(entity: str, aspect: str) -> str:
    """A triplet's condition: the entity and the aspect of it (Tri-RAG §IV-F)."""
    return f"{entity}; {aspect}"


def fact_of(triplet: ConditionTriplet) -> Triple:
    """A condition triplet as subject, predicate and object, for readers of triples.

    The object is what the claim's wording says it is; of a claim in other words, all of it but
    the entity at its beginning. A condition without an aspect counts as one about "is".
    """
    entity, _, aspect = triplet.condition.rpartition("; ")
    entity, aspect = (entity, aspect) if entity else (aspect, "is")
    claimed = triplet.conclusion.strip().removesuffix(".")
    before, _, after = _pattern(relation_words(aspect)).partition("{o}")
    before, after = (part.replace("{s}", entity) for part in (before, after))
    starts = [before, before.replace(" on ", " in ")]
    for start in starts:
        if claimed.startswith(start) and claimed.endswith(after):
            stated = claimed[len(start) : len(claimed) - len(after)].strip()
            if stated:
                return Triple(entity, aspect, stated)
    rest = claimed.removeprefix(entity).strip(" ,;:")
    return Triple(entity, aspect, rest or claimed)


def _pattern(relation: str) -> str:
    """The claim's wording with {s} and {o} in the subject's and the object's place."""
    return _CLAIMS.get(relation, f"The {relation} of {{s}} is {{o}}")
