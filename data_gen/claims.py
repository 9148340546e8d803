"""Facts as claims in one sentence, and the anchors that questions about them would match."""

import re

from data_gen.entity_text import relation_key
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
_ONLY_A_YEAR = re.compile(r"(?:c(?:irca|\.)? ?)?\d{3,4}s?(?: BC)?|[A-Z][a-z]+ \d{4}")


def claim(fact: Triple) -> str:
    """A fact as a sentence that can be read alone."""
    relation = relation_key(fact.predicate)
    pattern = _CLAIMS.get(relation, f"The {relation} of {{s}} is {{o}}")
    if _ONLY_A_YEAR.fullmatch(fact.object):
        pattern = pattern.replace(" on {o}", " in {o}")
    return f"{pattern.format(s=fact.subject, o=fact.object).rstrip('.')}."


def anchor(entity: str, aspect: str) -> str:
    """A triplet's condition: the entity and the aspect of it (Tri-RAG §IV-F)."""
    return f"{entity}; {aspect}"
