"""Condition triplets as text, and facts as condition triplets (Tri-RAG §III-B)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from models.formats.triples import Triple, unescaped

_TAG = re.compile(r"\[\s*([CPR])\s*\]")
_TAG_OR_ESCAPE = re.compile(r"\\.|" + _TAG.pattern, re.DOTALL)
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})
_ORDER = ("C", "P", "R")
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
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOT_WORD = re.compile(r"[\W_]+")
_ONLY_A_YEAR = re.compile(r"(?:c(?:irca|\.)? ?)?\d{3,4}s?(?: BC)?|[A-Z][a-z]+ \d{4}")


@dataclass(frozen=True, order=True)
class ConditionTriplet:
    """A claim with the scope under which it holds and what supports it; the proof may be empty."""

    condition: str
    proof: str
    conclusion: str


@dataclass(frozen=True)
class ParsedConditions:
    """What a text held: its well-formed triplets, and how many pieces were not."""

    triplets: list[ConditionTriplet]
    malformed: int


def format_condition(triplet: ConditionTriplet) -> str:
    """Write one triplet on one line; a proof may be empty, its tag stays.

    Fields lose surrounding white space. Raises ValueError on an empty condition or conclusion.
    """
    condition, proof, conclusion = map(
        escape_field, (triplet.condition, triplet.proof, triplet.conclusion)
    )
    if not condition or not conclusion:
        raise ValueError(
            "a triplet's condition and conclusion need text; only a proof may be empty"
        )
    return f"[C] {condition} [P] {proof} [R] {conclusion}".replace("[P]  [R]", "[P] [R]")


def format_conditions(triplets: Iterable[ConditionTriplet]) -> str:
    """Write triplets one a line."""
    return "\n".join(map(format_condition, triplets))


def parse_conditions(text: str) -> ParsedConditions:
    """Read every triplet of a model's text; never raises.

    A triplet is the tags [C], [P] and [R], each once and in this order, with text after the first
    and the last. Text before the first [C] is ignored; text without any counts as one malformed
    piece unless it is blank.
    """
    tags = [match for match in _TAG_OR_ESCAPE.finditer(text) if match[1]]
    starts = [place for place, match in enumerate(tags) if match[1] == "C"]
    if not starts:
        return ParsedConditions([], int(bool(text.strip())))
    triplets, malformed = [], 0
    for start, end in zip(starts, [*starts[1:], len(tags)], strict=True):
        stop = tags[end].start() if end < len(tags) else len(text)
        triplet = _parse_piece(text, tags[start:end], stop)
        if triplet is None:
            malformed += 1
        else:
            triplets.append(triplet)
    return ParsedConditions(triplets, malformed)


def _parse_piece(text: str, tags: list[re.Match[str]], stop: int) -> ConditionTriplet | None:
    """Read one piece that starts at its [C]; None when it is not well formed."""
    if tuple(match[1] for match in tags) != _ORDER:
        return None
    ends = [*(match.start() for match in tags[1:]), stop]
    fields = [unescaped(text[match.end() : end]) for match, end in zip(tags, ends, strict=True)]
    triplet = ConditionTriplet(*fields)
    return triplet if triplet.condition and triplet.conclusion else None


def escape_field(field: str) -> str:
    """Escape what a reader would take for a tag or a line's end."""
    escaped = field.strip().translate(_ESCAPES)
    return _TAG.sub(lambda match: "\\" + match[0], escaped)


def claim(fact: Triple) -> str:
    """A fact as a sentence that can be read alone."""
    pattern = _pattern(relation_words(fact.predicate))
    if _ONLY_A_YEAR.fullmatch(fact.object):
        pattern = pattern.replace(" on {o}", " in {o}")
    return f"{pattern.format(s=fact.subject, o=fact.object).rstrip('.')}."


def relation_words(predicate: str) -> str:
    """A predicate in lower case with words apart: `birthDate` and `birth_date` are one."""
    return " ".join(_NOT_WORD.sub(" ", _CAMEL.sub(" ", predicate)).casefold().split())


def anchor(entity: str, aspect: str) -> str:
    """A triplet's condition: the entity and the aspect of it (Tri-RAG §IV-F)."""
    return f"{entity}; {aspect}"


def fact_of(triplet: ConditionTriplet) -> Triple:
    """A condition triplet as subject, predicate and object, for readers of triples.

    The object is what the claim's wording says it is; of a claim in other words, all of it but
    the entity at its beginning. A condition without an aspect counts as one about "is".
    """
    entity, _, aspect = triplet.condition.rpartition("; ")
    entity, aspect = (entity, aspect) if entity else (aspect, "is")
    claimed = triplet.conclusion.strip().removesuffix(".")
    before, _, after = _pattern(relation_words(aspect)).partition("{o}")
    before, after = (part.replace("{s}", entity) for part in (before, after))
    starts = [before, before.replace(" on ", " in ")]
    for start in starts:
        if claimed.startswith(start) and claimed.endswith(after):
            stated = claimed[len(start) : len(claimed) - len(after)].strip()
            if stated:
                return Triple(entity, aspect, stated)
    rest = claimed.removeprefix(entity).strip(" ,;:")
    return Triple(entity, aspect, rest or claimed)


def _pattern(relation: str) -> str:
    """The claim's wording with {s} and {o} in the subject's and the object's place."""
    return _CLAIMS.get(relation, f"The {relation} of {{s}} is {{o}}")
