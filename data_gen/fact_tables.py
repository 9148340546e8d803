"""Passages rewritten as an information box reads once its markup is gone: labels and values.

MuSiQue's corpus holds many such passages and its annotations hardly any. An extractor that has only
seen sentences quotes a whole box as the proof of each fact, and goes on to the next fact without a
conclusion where no full stop ends the quotation; the proof here is the fact's own row.
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


def as_table(sample: TriplesSample, seed: int) -> tuple[TriplesSample, list[str]] | None:
    """The passage's facts about its title as rows in one line, in place of its sentences.

    Returns the passage and the row of each of its facts; None where its title has fewer than two
    rows.
    """
    title = sample.text.partition(": ")[0]
    facts = [fact for fact in sample.triples if fact.subject == title]
    values = _values(facts)
    if len(values) < FEWEST_ROWS:
        return None
    rng = random.Random(f"{seed}:rows:{sample.id}")
    order = rng.sample(list(values), len(values))
    rows = {name: f"{_label(name, rng)} {' '.join(values[name])}" for name in order}
    placed = [fact for name in order for fact in facts if fact.predicate == name]
    text = f"{title}: {' '.join([*rng.choice(([title], [])), *rows.values()])}"
    return replace(sample, text=text, triples=placed), [rows[fact.predicate] for fact in placed]


def _values(facts: Iterable[Triple]) -> dict[str, list[str]]:
    """The objects of each relation."""
    values: dict[str, list[str]] = {}
    for fact in facts:
        values.setdefault(fact.predicate, []).append(fact.object)
    return values


def _label(predicate: str, rng: random.Random) -> str:
    return rng.choice(_LABELS.get(predicate, (predicate[:1].upper() + predicate[1:],)))
