"""Kinds of entities and the facts that may be said of each."""

from dataclasses import dataclass, field
from enum import StrEnum

from data_gen.world.dates import CalendarDate


class Kind(StrEnum):
    """The kind of an entity; the value is the noun that text uses for it."""

    PERSON = "person"
    FILM = "film"
    NOVEL = "novel"
    SONG = "song"
    COMPANY = "company"
    UNIVERSITY = "university"
    CLUB = "club"
    LABEL = "record label"
    CITY = "city"
    REGION = "region"
    COUNTRY = "country"


# Share of all entities and least number of each kind; people take what is left.
KIND_SHARES: dict[Kind, tuple[float, int]] = {
    Kind.COUNTRY: (0.015, 3),
    Kind.REGION: (0.035, 4),
    Kind.CITY: (0.08, 5),
    Kind.UNIVERSITY: (0.04, 2),
    Kind.COMPANY: (0.07, 3),
    Kind.CLUB: (0.03, 2),
    Kind.LABEL: (0.03, 2),
    Kind.NOVEL: (0.07, 3),
    Kind.SONG: (0.09, 3),
    Kind.FILM: (0.14, 4),
}
MINIMUM_ENTITIES = 60


@dataclass(frozen=True)
class Entity:
    """One thing of the world. `gender` is "f" or "m" for people and empty otherwise."""

    index: int
    kind: Kind
    name: str
    gender: str = ""


@dataclass(frozen=True)
class Fact:
    """A single-valued relation: `surface` is the object's text, `object` its entity if any."""

    subject: int
    predicate: str
    surface: str
    object: int | None = None
    date: CalendarDate | None = None

    @property
    def key(self) -> tuple[int, str]:
        return self.subject, self.predicate


@dataclass
class World:
    """Entities and, for each, its facts by predicate.

    `home` names the passage that states a fact where that is not the subject's own.
    """

    entities: list[Entity] = field(default_factory=list)
    facts: list[dict[str, Fact]] = field(default_factory=list)
    home: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, kind: Kind, name: str, gender: str = "") -> Entity:
        """Add an entity without facts; its index is its position."""
        entity = Entity(len(self.entities), kind, name, gender)
        self.entities.append(entity)
        self.facts.append({})
        return entity

    def relate(self, subject: Entity, predicate: str, target: Entity) -> None:
        """State that `subject` has the entity `target` for `predicate`."""
        fact = Fact(subject.index, predicate, target.name, target.index)
        self.facts[subject.index][predicate] = fact

    def describe(self, subject: Entity, predicate: str, surface: str) -> None:
        """State a literal (a genre, a prize, a number) of `subject`."""
        self.facts[subject.index][predicate] = Fact(subject.index, predicate, surface)

    def date(self, subject: Entity, predicate: str, date: CalendarDate) -> None:
        """State a date of `subject` in the date's own style."""
        fact = Fact(subject.index, predicate, date.surface, date=date)
        self.facts[subject.index][predicate] = fact

    def home_of(self, fact: Fact) -> int:
        """Return the index of the entity whose passage states the fact."""
        return self.home.get(fact.key, fact.subject)

    def of_kind(self, kind: Kind) -> list[Entity]:
        """Return all entities of a kind, in order of their index."""
        return [entity for entity in self.entities if entity.kind is kind]


def entity_counts(total: int) -> dict[Kind, int]:
    """Return how many entities of each kind a world of `total` entities has.

    Raises:
        ValueError: fewer than `MINIMUM_ENTITIES` were asked for.
    """
    if total < MINIMUM_ENTITIES:
        raise ValueError(f"a world needs at least {MINIMUM_ENTITIES} entities, not {total}")
    counts = {kind: max(least, int(total * share)) for kind, (share, least) in KIND_SHARES.items()}
    counts[Kind.PERSON] = total - sum(counts.values())
    return counts
