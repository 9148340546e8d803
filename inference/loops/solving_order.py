"""The triples of a question with unknowns: of what kind they are, and in which order to solve."""

from collections import Counter
from collections.abc import Collection, Sequence
from enum import StrEnum
from itertools import pairwise

from models.formats.planning import folded
from models.formats.query_triplets import ANONYMOUS, QueryTriplet, is_placeholder


class Knowledge(StrEnum):
    """The kind of knowledge that a sub-question asks for."""

    FACTUAL = "factual"
    ASSOCIATIVE = "associative"
    CAUSAL = "causal"


def factual_score(segment: Sequence[QueryTriplet]) -> float:
    """Return 1 for a single triple, else 0 (eq. 2)."""
    return float(len(segment) == 1)


def associative_score(segment: Sequence[QueryTriplet]) -> float:
    """Share of the steps at which an object is the next subject, in the order given (eq. 3).

    0 for fewer than two triples, for which the equation is not defined.
    """
    if len(segment) < 2:
        return 0.0
    ends = [_ends(triplet, place) for place, triplet in enumerate(segment)]
    links = [one[1] == other[0] for one, other in pairwise(ends)]
    return sum(links) / len(links)


def causal_score(segment: Sequence[QueryTriplet]) -> float:
    """Share of the triples that point to the most frequent object (eq. 4); 0 for none."""
    objects = Counter(_ends(triplet, place)[1] for place, triplet in enumerate(segment))
    return max(objects.values(), default=0) / max(len(segment), 1)


def classify(segment: Sequence[QueryTriplet]) -> Knowledge:
    """Return the knowledge that a sub-question's triples ask for, in solving order.

    Of a chain and a star that score the same, the chain. Two triples about one unknown subject
    ("the film by X with Y") are no chain and count as causal: several pieces of evidence for one
    entity.
    """
    if factual_score(segment):
        return Knowledge.FACTUAL
    chain, star = associative_score(segment), causal_score(segment)
    return Knowledge.ASSOCIATIVE if chain >= star else Knowledge.CAUSAL


def in_solving_order(triplets: Sequence[QueryTriplet]) -> list[QueryTriplet]:
    """Return the triples so that none has two unknowns that none before it finds (eq. 6 and 7).

    What cannot be ordered, as in a circle of unknowns, stands last.
    """
    waiting, found, ordered = list(triplets), set[str](), list[QueryTriplet]()
    while ready := [t for t in waiting if len(unknowns(t, found)) <= 1]:
        first = ready[0]
        waiting.remove(first)
        ordered.append(first)
        found.update(name for name in first.placeholders if name != ANONYMOUS)
    return ordered + waiting


def unknowns(triplet: QueryTriplet, found: Collection[str] = ()) -> list[str]:
    """Return the open fields that are not found yet; each `?` counts, a `?name` once."""
    names = [name.strip() for name in triplet.placeholders]
    nameless = [name for name in names if name == ANONYMOUS]
    return nameless + [n for n in dict.fromkeys(names) if n != ANONYMOUS and n not in found]


def segments(triplets: Sequence[QueryTriplet]) -> list[list[QueryTriplet]]:
    """Return the triples that share unknowns together, in order; each group is solved by itself."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, triplet in enumerate(triplets):
        names = {name for name in unknowns(triplet) if name != ANONYMOUS}
        joined = [group for group in groups if group[0] & names]
        groups = [group for group in groups if group not in joined]
        places = [place, *(p for group in joined for p in group[1])]
        groups.append((names.union(*(group[0] for group in joined)), sorted(places)))
    ordered = sorted(places for _, places in groups)
    return [[triplets[place] for place in places] for places in ordered]


def segment_question(segment: Sequence[QueryTriplet]) -> str:
    """Return a segment in words, for a search and for a trace."""
    parts = [
        f"What has {t.object} as its {t.predicate}?"
        if is_placeholder(t.subject) and not is_placeholder(t.object)
        else f"What is the {t.predicate} of {t.subject}?"
        for t in segment
    ]
    return " ".join(parts)


def _ends(triplet: QueryTriplet, place: int) -> tuple[str, str]:
    """Return subject and object as keys; each `?` means another thing."""
    keys = []
    for side, text in (("s", triplet.subject), ("o", triplet.object)):
        key = folded(text)
        keys.append(f"{key}{side}{place}" if key == ANONYMOUS else key)
    return keys[0], keys[1]


def ready_groups(
    triplets: Sequence[QueryTriplet], tried: Collection[QueryTriplet], together: bool
) -> list[list[QueryTriplet]]:
    """Return the triples with one unknown that were not tried as they are, to be solved at once.

    Of several with the same `?name` one is taken, whose answer the others then have, or with
    `together` all of them as one group.
    """
    groups: dict[object, list[QueryTriplet]] = {}
    for place, triplet in enumerate(triplets):
        names = unknowns(triplet)
        if len(names) == 1 and triplet not in tried and triplet.proposition:
            key: object = place if names[0] == ANONYMOUS else names[0]
            groups.setdefault(key, []).append(triplet)
    return [group if together else group[:1] for group in groups.values()]
