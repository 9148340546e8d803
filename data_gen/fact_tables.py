"""Passages rewritten as an information box reads once its markup is gone: labels and values.

MuSiQue's corpus holds many such passages and its annotations hardly any, so that an extractor that
has only seen sentences quotes the whole box as the proof of each fact.
"""

import random
from collections.abc import Iterable
from dataclasses import replace

from data_gen.splits import hash_fraction
from models.formats.records import TriplesSample
from models.formats.triples import Triple

FEWEST_ROWS = 2

# As boxes name them; any other relation stands under its own name.
_LABELS = {
    "director": ("Directed by",),
    "producer": ("Produced by",),
    "composer": ("Music by", "Composed by"),
    "author": ("Written by", "Author"),
    "screenwriter": ("Written by", "Screenplay by"),
    "performer": ("Artist", "Performed by"),
    "cast member": ("Starring",),
    "publisher": ("Publisher", "Published by"),
    "publication date": ("Release date", "Released"),
    "country of origin": ("Country",),
    "country of citizenship": ("Nationality", "Citizenship"),
    "date of birth": ("Born",),
    "date of death": ("Died",),
    "place of birth": ("Place of birth", "Birthplace"),
    "place of death": ("Place of death", "Resting place"),
    "inception": ("Founded", "Established"),
    "founded by": ("Founder", "Founders"),
    "spouse": ("Spouse", "Spouse (s)"),
    "headquarters location": ("Headquarters",),
    "educated at": ("Alma mater", "Education"),
}


def is_table(sample: TriplesSample, share: float, seed: int) -> bool:
    """Whether this passage is among those rewritten, the same in every build and shard."""
    return hash_fraction(f"table/{sample.id}", seed) < share


def as_table(sample: TriplesSample, seed: int) -> TriplesSample | None:
    """The passage's facts about its title as rows in one line, in place of its sentences.

    None where its title has fewer than two rows.
    """
    title = sample.text.partition(": ")[0]
    facts = [fact for fact in sample.triples if fact.subject == title]
    rows = _rows(facts)
    if len(rows) < FEWEST_ROWS:
        return None
    rng = random.Random(f"{seed}:rows:{sample.id}")
    order = rng.sample(list(rows), len(rows))
    lines = [f"{_label(predicate, rng)} {' '.join(rows[predicate])}" for predicate in order]
    placed = [fact for predicate in order for fact in facts if fact.predicate == predicate]
    text = f"{title}: {' '.join([*rng.choice(([title], [])), *lines])}"
    return replace(sample, text=text, triples=placed)


def _rows(facts: Iterable[Triple]) -> dict[str, list[str]]:
    """The values of each relation."""
    rows: dict[str, list[str]] = {}
    for fact in facts:
        rows.setdefault(fact.predicate, []).append(fact.object)
    return rows


def _label(predicate: str, rng: random.Random) -> str:
    return rng.choice(_LABELS.get(predicate, (predicate[:1].upper() + predicate[1:],)))
