"""Weak labels: triples about a passage's subject that precise patterns find in its lead.

A labelling function takes (title, text) and returns the objects of one relation, each a substring
of the text. Which of them are in use was decided by measuring them (data_gen/weak_measure.py)."""

from collections.abc import Callable, Collection, Mapping

from data_gen import weak_kinship, weak_life, weak_works
from models.formats.triples import Triple

LabellingFunction = Callable[[str, str], list[str]]

LABELLING_FUNCTIONS: Mapping[str, LabellingFunction] = {
    "date of birth": weak_life.date_of_birth,
    "date of death": weak_life.date_of_death,
    "place of birth": weak_life.place_of_birth,
    "place of death": weak_life.place_of_death,
    "country of citizenship": weak_life.country_of_citizenship,
    "occupation": weak_life.occupation,
    "place of burial": weak_life.place_of_burial,
    "cause of death": weak_life.cause_of_death,
    "educated at": weak_life.educated_at,
    "employer": weak_life.employer,
    "father": weak_kinship.father,
    "mother": weak_kinship.mother,
    "spouse": weak_kinship.spouse,
    "child": weak_kinship.child,
    "sibling": weak_kinship.sibling,
    "director": weak_works.director,
    "producer": weak_works.producer,
    "publication date": weak_works.publication_date,
    "country of origin": weak_works.country_of_origin,
    "performer": weak_works.performer,
    "composer": weak_works.composer,
    "country": weak_works.country,
    "founded by": weak_works.founded_by,
    "inception": weak_works.inception,
    "publisher": weak_works.publisher,
    "creator": weak_works.creator,
}

# Measured on 2WikiMultihopQA's annotation, these stay below 85 % precision, or were not measured.
_NOT_IN_USE = {"sibling", "place of burial", "educated at", "employer", "founded by", "creator"}
RELATIONS_IN_USE = tuple(name for name in LABELLING_FUNCTIONS if name not in _NOT_IN_USE)


def weak_triples(
    title: str, text: str, relations: Collection[str] = RELATIONS_IN_USE
) -> list[Triple]:
    """Triples (title, relation, object) that the labelling functions find in `text`."""
    found: list[Triple] = []
    for relation, function in LABELLING_FUNCTIONS.items():
        for value in function(title, text) if relation in relations else []:
            triple = Triple(title, relation, value.strip())
            if triple.object and triple.object in text and triple.object != title:
                found.append(triple)
    return list(dict.fromkeys(found))
