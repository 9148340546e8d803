"""Query triplets as text: `subject | predicate | object`, one a line (T²RAG §4.3, step 1).

What is not known yet is `?`, or `?name` where several triplets mean the same unknown.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from models.formats.triples import unescaped

_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "\n": "\\n", "\r": "\\r"})
# A bullet or the heading of the paper's own examples ("Triple: France | has capital | ?").
_LEAD = re.compile(r"(?:[-*•]\s|triples?:|triplets?:)\s*", re.IGNORECASE)
_FIELD = re.compile(r"(?:(?>\\.|[^|])*+)", re.DOTALL)
ANONYMOUS = "?"


class TripletState(StrEnum):
    """How many fields are open: none, one, or more (T²RAG §4.3, step 1)."""

    RESOLVED = "resolved"
    SEARCHABLE = "searchable"
    FUZZY = "fuzzy"


@dataclass(frozen=True, order=True)
class QueryTriplet:
    """One fact that a question needs; a field that reads as a placeholder is open."""

    subject: str
    predicate: str
    object: str

    @property
    def fields(self) -> tuple[str, str, str]:
        """Subject, predicate and object."""
        return self.subject, self.predicate, self.object

    @property
    def placeholders(self) -> list[str]:
        """The open fields as they are written, in order; one that stands twice comes twice."""
        return [field for field in self.fields if is_placeholder(field)]

    @property
    def state(self) -> TripletState:
        """Resolved, searchable or fuzzy."""
        states = (TripletState.RESOLVED, TripletState.SEARCHABLE, TripletState.FUZZY)
        return states[min(len(self.placeholders), 2)]

    @property
    def proposition(self) -> str:
        """The known fields in one line, to search with (T²RAG §4.3, step 2.1)."""
        return " ".join(field.strip() for field in self.fields if not is_placeholder(field))


@dataclass(frozen=True)
class ParsedQueryTriplets:
    """What a text held: its well-formed triplets, and how many lines were meant to be one."""

    triplets: list[QueryTriplet]
    malformed: int


def is_placeholder(field: str) -> bool:
    """Whether a field is `?` or `?name`: a text that begins with `?` is no value."""
    return field.strip().startswith(ANONYMOUS)


def format_query_triplet(triplet: QueryTriplet) -> str:
    """Write one triplet as `subject | predicate | object`.

    Fields lose surrounding white space. Raises ValueError when a field is empty.
    """
    written = " | ".join(map(_escape, triplet.fields))
    return f"\\{written}" if _LEAD.match(written) else written


def format_query_triplets(triplets: Iterable[QueryTriplet]) -> str:
    """Write triplets one a line."""
    return "\n".join(map(format_query_triplet, triplets))


def parse_query_triplets(text: str) -> ParsedQueryTriplets:
    """Read every triplet of a model's text; never raises.

    A line with a `|` is meant to be a triplet; other lines are ignored, but a text that has none
    at all counts as one malformed piece unless it is blank.
    """
    lines = [fields for line in text.split("\n") if len(fields := _split(line)) > 1]
    if not lines:
        return ParsedQueryTriplets([], int(bool(text.strip())))
    triplets = [QueryTriplet(*fields) for fields in lines if len(fields) == 3 and all(fields)]
    return ParsedQueryTriplets(triplets, len(lines) - len(triplets))


def bind(triplets: Iterable[QueryTriplet], values: Mapping[str, str]) -> list[QueryTriplet]:
    """Put values in the place of placeholders, in every triplet that holds one.

    values: by placeholder, as `?name`. Raises ValueError for a blank value, and for `?`: nameless,
    it means another unknown in every triplet.
    """
    for name, value in values.items():
        if name == ANONYMOUS or not is_placeholder(name) or not value.strip():
            raise ValueError(f"{name!r} cannot be bound to {value!r}: give ?name and a text")
    return [QueryTriplet(*(values.get(f.strip(), f) for f in t.fields)) for t in triplets]


def filled_in(open_triplet: QueryTriplet, written: QueryTriplet) -> QueryTriplet | None:
    """The open triplet with what `written` has in the place of its placeholders.

    None where `written` fills no placeholder, or is about another subject or object (case and
    spacing aside). The known fields stay as they were, a reworded predicate too.
    """
    filled = []
    for name in ("subject", "predicate", "object"):
        ours, theirs = getattr(open_triplet, name), getattr(written, name)
        if is_placeholder(ours):
            filled.append(ours if is_placeholder(theirs) else theirs)
        elif name != "predicate" and _same_words(ours) != _same_words(theirs):
            return None
        else:
            filled.append(ours)
    result = QueryTriplet(*filled)
    return None if result == open_triplet else result


def resolve(
    triplets: Sequence[QueryTriplet], open_triplet: QueryTriplet, filled: QueryTriplet
) -> list[QueryTriplet]:
    """Put `filled` in the place of `open_triplet`; what it bound by name is bound everywhere.

    filled: as `filled_in` gives it.
    """
    pairs = zip(open_triplet.fields, filled.fields, strict=True)
    values = {ours: theirs for ours, theirs in pairs if ours != theirs and ours != ANONYMOUS}
    return bind((filled if t == open_triplet else t for t in triplets), values)


def name_free(triplets: Sequence[QueryTriplet]) -> list[QueryTriplet]:
    """The triplets with each named placeholder replaced by what introduces it.

    `Dawn | director | ?a` and `?a | date of birth | ?` become `Dawn | director | ?` and
    `?(Dawn, director) | date of birth | ?`, so that lists of triplets can be compared whatever
    their order and whatever their placeholders are called. A placeholder that nothing known leads
    to becomes `?`.
    """
    described = {ANONYMOUS: ANONYMOUS}
    introducing: dict[str, QueryTriplet] = {}
    while found := _introduced(triplets, described):
        for name, (description, triplet) in found.items():
            described[name], introducing[name] = description, triplet

    def nameless(triplet: QueryTriplet, field: str) -> str:
        if not is_placeholder(field):
            return field
        here = introducing.get(field) == triplet
        return ANONYMOUS if here else described.get(field, ANONYMOUS)

    return [QueryTriplet(*(nameless(t, field) for field in t.fields)) for t in triplets]


def _introduced(
    triplets: Sequence[QueryTriplet], described: Mapping[str, str]
) -> dict[str, tuple[str, QueryTriplet]]:
    """Placeholders that a triplet with otherwise known fields introduces: how, and which one."""
    found: dict[str, tuple[str, QueryTriplet]] = {}
    for triplet in triplets:
        new = {name for name in triplet.placeholders if name not in described}
        if len(new) != 1 or ANONYMOUS in triplet.placeholders:
            continue
        [name] = new
        others = ", ".join(described.get(f, f) for f in triplet.fields if f != name)
        candidate = (f"?({others})", triplet)
        found[name] = min(found.get(name, candidate), candidate)
    return found


def _same_words(field: str) -> list[str]:
    return field.casefold().split()


def _escape(field: str) -> str:
    field = field.strip()
    if not field:
        raise ValueError("a query triplet's field is empty; write ? where it is not known")
    return field.translate(_ESCAPES)


def _split(line: str) -> list[str]:
    """The fields of a line, cut at every `|` that no backslash stands before."""
    line = line.strip()
    lead = _LEAD.match(line)
    fields, rest = [], line[lead.end() :] if lead else line
    while match := _FIELD.match(rest):
        fields.append(unescaped(match[0]))
        if match.end() == len(rest):
            break
        rest = rest[match.end() + 1 :]
    return fields
