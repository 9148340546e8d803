"""Fewer samples of the common relations, all of the rare ones."""

from collections import Counter
from collections.abc import Iterable

from data_gen.splits import hash_fraction
from models.formats.records import TriplesSample


def balanced(samples: Iterable[TriplesSample], limit: int, seed: int) -> list[TriplesSample]:
    """Keep a sample while one of its relations stands in fewer than `limit` kept samples.

    Taken in an order by hash of the ids, so that the choice depends on `seed` alone; a relation
    may pass the limit in the company of a rarer one. Returned in the order given.
    """
    samples = list(samples)
    held: Counter[str] = Counter()
    kept: set[str] = set()
    for sample in sorted(samples, key=lambda s: hash_fraction(f"balance/{s.id}", seed)):
        relations = {triple.predicate for triple in sample.triples}
        if any(held[relation] < limit for relation in relations):
            held.update(relations)
            kept.add(sample.id)
    return [sample for sample in samples if sample.id in kept]
