"""Fewer samples of the common relations, all of the rare ones."""

import json
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_gen.splits import hash_fraction
from data_gen.streaming.external_sort import ExternalSort, sort_key
from models.formats.records import TriplesSample


def balanced_places(
    samples: Iterable[TriplesSample], limit: int, seed: int, folder: Path
) -> npt.NDArray[np.bool_]:
    """Which samples stay: one does while one of its relations stands in fewer than `limit` kept.

    Taken in an order by hash of the ids, so that the choice depends on `seed` alone; a relation may
    pass the limit in the company of a rarer one. The samples are sorted in `folder`; in memory are
    a count for each relation and a byte a sample.
    """
    order, count = ExternalSort(folder), 0
    for count, sample in enumerate(samples, start=1):
        relations = sorted({triple.predicate for triple in sample.triples})
        place = sort_key(hash_fraction(f"balance/{sample.id}", seed), count)
        order.add(place, json.dumps([sample.id, count - 1, relations]))
    kept = np.zeros(count, bool)
    held: Counter[str] = Counter()
    # Texts under one title have one id, and stay or go together.
    for _, same in groupby(map(json.loads, order), key=lambda row: row[0]):
        numbers, stays = [], False
        for _, number, relations in same:
            numbers.append(number)
            if any(held[relation] < limit for relation in relations):
                held.update(relations)
                stays = True
        kept[numbers] = stays
    return kept
