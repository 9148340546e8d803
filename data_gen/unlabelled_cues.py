"""Which relations a text seems to tell that its labels do not hold.

A text-to-triples model that often sees a birthplace without its triple learns to leave birthplaces
out. Labels from patterns and from questions' evidence are incomplete in just this way, so samples
with such a gap are better left out than taught from.
"""

import re
from collections.abc import Collection

from data_gen.weak_life import life_brackets
from data_gen.weak_patterns import DATE
from models.formats.triples import Triple

_PLACE_AFTER_DATE = rf"{DATE},? ?(?:in |at |near )?(?:the )?[A-Z]"
# Broad on purpose: what they match by mistake costs a sample, what they miss teaches an omission.
CUES: dict[str, re.Pattern[str]] = {
    "place of birth": re.compile(r"\b[Bb]orn\b[^.;()]{0,60}\b(?:in|at|near) (?:the )?[A-Z]"),
    "place of death": re.compile(r"\b[Dd]ied\b[^.;()]{0,60}\b(?:in|at|near) (?:the )?[A-Z]"),
    "spouse": re.compile(r"\b(?:married|wife|husband|spouse|consort|widow|widower)\b"),
    "father": re.compile(r"\b(?:son|daughter|child) of\b|\b[Ff]ather\b"),
    "mother": re.compile(
        r"\b[Mm]other\b|\b(?:son|daughter|child) of [^.;]{3,60} (?:and|by) (?:his |her )?"
    ),
    "director": re.compile(r"\b[Dd]irected by\b|\b[Dd]irector (?:is|was)\b"),
    "composer": re.compile(
        r"\b(?:music|score|soundtrack|songs?)\b[^.;]{0,40} by\b|\bcomposed by\b"
    ),
    "producer": re.compile(r"\b[Pp]roduced by\b"),
    "performer": re.compile(r"\b(?:song|single|album|EP|track)\b[^.;]{0,60}\bby\b"),
}


def unlabelled_relations(text: str, triples: Collection[Triple]) -> list[str]:
    """The relations of `CUES` that the text has a cue for and no triple, in the order of `CUES`.

    `text` is a passage with its title in front, as the model reads it.
    """
    held = {triple.predicate for triple in triples}
    told = {relation for relation, cue in CUES.items() if cue.search(text)}
    told |= _places_in_brackets(text)
    return [relation for relation in CUES if relation in told - held]


def _places_in_brackets(text: str) -> set[str]:
    """Whether places stand beside the dates of the life brackets, by their side of the dash."""
    parts = re.split(r"\s*[–—;]\s*|\s-\s", life_brackets(text))
    relations = ("place of birth", "place of death")
    return {
        relation
        for relation, part in zip(relations, parts, strict=False)
        if re.search(_PLACE_AFTER_DATE, part)
    }
