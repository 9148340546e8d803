"""Weak labels of a passage, relations that they miss, and their agreement with annotation."""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from data_gen.labelling import life as weak_life
from data_gen.labelling import works as weak_works
from data_gen.labelling.life import life_brackets
from data_gen.labelling.patterns import DATE
from models.facts.countries import canonical_country
from models.formats.triples import Triple

LabellingFunction = Callable[[str, str], list[str]]

LABELLING_FUNCTIONS: Mapping[str, LabellingFunction] = {
    "date of birth": weak_life.date_of_birth,
    "date of death": weak_life.date_of_death,
    "place of birth": weak_life.place_of_birth,
    "place of death": weak_life.place_of_death,
    "country of citizenship": weak_life.country_of_citizenship,
    "occupation": weak_life.occupation,
    "place of burial": weak_life.place_of_burial,
    "cause of death": weak_life.cause_of_death,
    "educated at": weak_life.educated_at,
    "employer": weak_life.employer,
    "father": weak_life.father,
    "mother": weak_life.mother,
    "spouse": weak_life.spouse,
    "child": weak_life.child,
    "sibling": weak_life.sibling,
    "director": weak_works.director,
    "producer": weak_works.producer,
    "publication date": weak_works.publication_date,
    "country of origin": weak_works.country_of_origin,
    "performer": weak_works.performer,
    "composer": weak_works.composer,
    "country": weak_works.country,
    "founded by": weak_works.founded_by,
    "inception": weak_works.inception,
    "publisher": weak_works.publisher,
    "creator": weak_works.creator,
}

# Measured on 2WikiMultihopQA's annotation, these stay below 85 % precision, or were not measured.
_NOT_IN_USE = {"sibling", "place of burial", "educated at", "employer", "founded by", "creator"}
RELATIONS_IN_USE = tuple(name for name in LABELLING_FUNCTIONS if name not in _NOT_IN_USE)
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
_NOT_WORD = re.compile(r"[\W_]+")


def weak_triples(
    title: str, text: str, relations: Collection[str] = RELATIONS_IN_USE
) -> list[Triple]:
    """Return the triples (title, relation, object) that the labelling functions find in `text`."""
    found: list[Triple] = []
    for relation, function in LABELLING_FUNCTIONS.items():
        for value in function(title, text) if relation in relations else []:
            triple = Triple(title, relation, value.strip())
            if triple.object and triple.object in text and triple.object != title:
                found.append(triple)
    return list(dict.fromkeys(found))


def unlabelled_relations(text: str, triples: Collection[Triple]) -> list[str]:
    """Return the relations of `CUES`, in order, that the text has a cue for and no triple.

    `text` is a passage with its title in front, as the model reads it.
    """
    held = {triple.predicate for triple in triples}
    told = {relation for relation, cue in CUES.items() if cue.search(text)}
    told |= _places_in_brackets(text)
    return [relation for relation in CUES if relation in told - held]


def _places_in_brackets(text: str) -> set[str]:
    """Return whether places stand beside the dates of life brackets, by side of the dash."""
    parts = re.split(r"\s*[–—;]\s*|\s-\s", life_brackets(text))
    relations = ("place of birth", "place of death")
    return {
        relation
        for relation, part in zip(relations, parts, strict=False)
        if re.search(_PLACE_AFTER_DATE, part)
    }


@dataclass(frozen=True)
class Agreement:
    """Counts over the (title, relation) pairs that the annotation knows.

    `fired`: pairs for which the function found an object; `exact`: it is an annotated one;
    `same`: it is one, or a shorter or longer form of one (Rosedale, Indiana / Rosedale).
    """

    relation: str
    annotated: int
    fired: int
    exact: int
    same: int

    @property
    def precision(self) -> float:
        """Share of the found objects that name an annotated one, be it shorter or longer."""
        return self.same / self.fired if self.fired else 0.0

    @property
    def exact_precision(self) -> float:
        """Share of the found objects that are an annotated one word for word."""
        return self.exact / self.fired if self.fired else 0.0

    @property
    def recall(self) -> float:
        """Share of the annotated pairs for which the function found the object."""
        return self.same / self.annotated if self.annotated else 0.0


def _words(text: str) -> str:
    return f" {_NOT_WORD.sub(' ', text).strip().casefold()} "


def _same_entity(first: str, second: str) -> bool:
    """Equal, names of one country, or one begins or ends with the other's words."""
    a, b = _words(first), _words(second)
    if canonical_country(first) == canonical_country(second):
        return True
    return a.startswith(b) or b.startswith(a) or a.endswith(b) or b.endswith(a)


def measure_labels(
    passages: Mapping[str, str], evidences: Mapping[tuple[str, str], set[str]]
) -> list[Agreement]:
    """Return one Agreement for each labelling function.

    `passages` maps titles to texts; `evidences` maps (title, relation) to the annotated objects.
    A found object is wrong when the annotation has the pair with other objects only.
    """
    by_relation: dict[str, list[tuple[str, set[str]]]] = defaultdict(list)
    for (title, relation), objects in evidences.items():
        if title in passages:
            by_relation[relation].append((title, objects))
    return [_measure(relation, by_relation[relation], passages) for relation in LABELLING_FUNCTIONS]


def added_up(parts: Iterable[Sequence[Agreement]]) -> list[Agreement]:
    """Return the counts of several measurements of different titles, relation by relation."""
    sums: dict[str, Agreement] = {}
    for row in itertools.chain.from_iterable(parts):
        before = sums.get(row.relation, Agreement(row.relation, 0, 0, 0, 0))
        sums[row.relation] = Agreement(
            row.relation,
            before.annotated + row.annotated,
            before.fired + row.fired,
            before.exact + row.exact,
            before.same + row.same,
        )
    return list(sums.values())


def _measure(
    relation: str, pairs: list[tuple[str, set[str]]], passages: Mapping[str, str]
) -> Agreement:
    fired = exact = same = 0
    for title, objects in pairs:
        found = LABELLING_FUNCTIONS[relation](title, passages[title])
        fired += bool(found)
        exact += any(_words(value) == _words(gold) for value in found for gold in objects)
        same += any(_same_entity(value, gold) for value in found for gold in objects)
    return Agreement(relation, len(pairs), fired, exact, same)
