"""Topics that mean the same made one (TH-RAG, Limitations: sports/sport, film director/director).

Each name joins the most similar one that stands for itself and that more facts have; so a name is
never further from what it joins than the threshold, which chains of neighbours would be. The
outcome depends on the names, their counts and vectors alone, not on the order in which they came.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from models.sentence_encoder import FloatArray

SAME_MEANING = 0.85
"""By all-MiniLM-L6-v2: film director/director 0.85, but record label/label 0.75, novel/novelist
0.73 and father/mother 0.73."""
NEIGHBOURS = 64
_ROWS = 256
_NUMBER = re.compile(r"\d+")


def alike_pairs(
    new: Sequence[str],
    new_vectors: FloatArray,
    names: Sequence[str],
    vectors: FloatArray,
    threshold: float,
) -> list[tuple[str, str, float]]:
    """Pairs of a new name and another, similar by at least `threshold`; each pair once, in order.

    names: all names, or the other new ones, with vectors [n, d] of length 1. A new name is paired
    with its `NEIGHBOURS` nearest at most. Names with other numbers in them ("1980s", "1990s") are
    never a pair.
    """
    pairs: dict[tuple[str, str], float] = {}
    for start in range(0, len(new), _ROWS):
        similarities = new_vectors[start : start + _ROWS] @ vectors.T
        if len(names) > NEIGHBOURS:
            least = -np.partition(-similarities, NEIGHBOURS, axis=1)[:, NEIGHBOURS - 1 : NEIGHBOURS]
            near = similarities >= np.maximum(least, threshold)
        else:
            near = similarities >= threshold
        for row, column in np.argwhere(near):
            one, other = sorted((new[start + row], names[column]))
            if one != other and _NUMBER.findall(one) == _NUMBER.findall(other):
                pairs[one, other] = round(float(similarities[row, column]), 4)
    return [(*pair, similarity) for pair, similarity in sorted(pairs.items())]


def merged_names(
    counts: Mapping[str, int], pairs: Iterable[tuple[str, str, float]]
) -> dict[str, str]:
    """What each name is called: itself, or the name that it joins.

    counts: facts by name. pairs: as `alike_pairs` gives them; those with other names are ignored.
    """
    near: dict[str, list[tuple[float, str]]] = {name: [] for name in counts}
    for one, other, similarity in pairs:
        if one in near and other in near:
            near[one].append((similarity, other))
            near[other].append((similarity, one))
    called: dict[str, str] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        own = [(-similarity, -counts[n], n) for similarity, n in near[name] if called.get(n) == n]
        called[name] = min(own)[2] if own else name
    return called
