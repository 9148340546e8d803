"""The state of a T²RAG question: its triplets, what is open, and variable locking
(T²RAG §4.3 step 2.3, App. E.2)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from models.formats.claims import relation_words
from models.formats.query_triplets import (
    ANONYMOUS,
    QueryTriplet,
    TripletState,
    bind,
    filled_in,
    format_query_triplet,
    is_placeholder,
)

_NO_VALUE = re.compile(
    r"\W*(?:unknown|unspecified|undisclosed|none|nothing|null|nil|n/?a|tbd|unresolved"
    r"|not (?:\w+ )?(?:specified|mentioned|stated|given|known|available|provided|found)(?: .*)?"
    r"|no (?:information|data|mention)(?: .*)?)\W*",
    re.IGNORECASE,
)
_SMALL_WORDS = frozenset(
    re.findall(r"\w+", "a an and at by did do for from has have in is it of on or the to was")
)


@dataclass(frozen=True)
class Settled:
    """Triplets after a round.

    notes: of placeholders that were found to be two things, and of triplets that are resolved by
    what was found for others alone, so that nothing was read that states them.
    """

    triplets: list[QueryTriplet]
    notes: list[str] = field(default_factory=list)


def in_state(triplets: Iterable[QueryTriplet], *states: TripletState) -> list[QueryTriplet]:
    """The triplets in one of these states, in their order."""
    return [triplet for triplet in triplets if triplet.state in states]


def settle(triplets: Sequence[QueryTriplet], written: Iterable[QueryTriplet]) -> Settled:
    """What a model wrote put in the place of the open triplets that it fills.

    What is found for `?name` is put into every triplet that holds it. A triplet that the model did
    not write about stays as it was; what fills no open triplet is passed over, and so is a value
    that says that there is none ("unknown"). Where the model found two values for one `?name`, the
    two triplets keep a value each, and the others take the first.
    """
    filled = _assigned(triplets, list(written))
    values: dict[str, str] = {}
    notes = []
    for place, result in sorted(filled.items()):
        for name, value in zip(triplets[place].fields, result.fields, strict=True):
            if name in (value, ANONYMOUS):
                continue
            first = values.setdefault(name.strip(), value)
            if first.casefold() != value.casefold():
                notes.append(f"{name} was found to be {first!r} and {value!r}: two things")
    after = bind((filled.get(place, triplet) for place, triplet in enumerate(triplets)), values)
    notes += [
        f"not read but inferred: {format_query_triplet(result)}"
        for place, result in enumerate(after)
        if place not in filled and result != triplets[place] and not result.placeholders
    ]
    return Settled(list(dict.fromkeys(after)), notes)


def _assigned(
    triplets: Sequence[QueryTriplet], written: Sequence[QueryTriplet]
) -> dict[int, QueryTriplet]:
    """For the places of open triplets, what they become; each clue fills one triplet at most.

    The closest predicates are matched first. A predicate in wholly other words is taken where the
    triplet's subject or object is known and nothing else is left for it.
    """
    pairs = []
    for number, clue in enumerate(written):
        for place, triplet in enumerate(triplets):
            result = filled_in(triplet, clue) if triplet.placeholders else None
            if result is None or not _says_something(triplet, result):
                continue
            closeness = _closeness(triplet.predicate, clue.predicate)
            if closeness or not _is_all_open(triplet):
                left_open = len(result.placeholders)
                pairs.append((-closeness, left_open, number, place, result))
    taken: dict[int, QueryTriplet] = {}
    used: set[int] = set()
    for _, _, number, place, result in sorted(pairs, key=lambda pair: pair[:4]):
        if place not in taken and number not in used:
            taken[place] = result
            used.add(number)
    return taken


def _is_all_open(triplet: QueryTriplet) -> bool:
    return is_placeholder(triplet.subject) and is_placeholder(triplet.object)


def _closeness(asked: str, written: str) -> int:
    """2: the same relation, or any is asked for; 1: a word in common; 0: other words."""
    one, other = relation_words(asked), relation_words(written)
    if is_placeholder(asked) or one == other:
        return 2
    return int(bool((set(one.split()) & set(other.split())) - _SMALL_WORDS))


def _says_something(triplet: QueryTriplet, result: QueryTriplet) -> bool:
    pairs = zip(triplet.fields, result.fields, strict=True)
    return not any(_NO_VALUE.fullmatch(value) for field, value in pairs if field != value)
