"""Kinds of entities, the facts that may be said of each, and dates as passages write them."""

import calendar
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from models.facts.dates import MONTHS, Date, compare_dates


class DateStyle(StrEnum):
    """A way of writing a date."""

    DAY_FIRST = "7 March 1982"
    MONTH_FIRST = "March 7, 1982"
    YEAR = "1982"


@dataclass(frozen=True)
class CalendarDate:
    """A day, of which the year style tells the year alone."""

    year: int
    month: int
    day: int
    style: DateStyle

    def written(self, style: DateStyle) -> str:
        """Return the date in the given style."""
        month = MONTHS[self.month - 1]
        if style is DateStyle.DAY_FIRST:
            return f"{self.day} {month} {self.year}"
        if style is DateStyle.MONTH_FIRST:
            return f"{month} {self.day}, {self.year}"
        return str(self.year)

    @property
    def told(self) -> Date:
        """The part of the date that the passage tells."""
        year_only = self.style is DateStyle.YEAR
        return Date(self.year) if year_only else Date(self.year, self.month, self.day)

    @property
    def surface(self) -> str:
        """The date as the passage writes it."""
        return self.written(self.style)

    @property
    def preposition(self) -> str:
        return "in" if self.style is DateStyle.YEAR else "on"

    @property
    def aliases(self) -> list[str]:
        """Other ways of writing all that the surface tells."""
        if self.style is DateStyle.YEAR:
            return []
        styles = (DateStyle.DAY_FIRST, DateStyle.MONTH_FIRST)
        return [self.written(style) for style in styles if style is not self.style]


def random_date(rng: Random, first_year: int, last_year: int, year_only: float) -> CalendarDate:
    """Return a date in a random style; `year_only`: how often the year alone is told."""
    year, month = rng.randint(first_year, last_year), rng.randint(1, 12)
    day = rng.randint(1, calendar.monthrange(year, month)[1])
    if rng.random() < year_only:
        style = DateStyle.YEAR
    else:
        style = rng.choice((DateStyle.DAY_FIRST, DateStyle.MONTH_FIRST))
    return CalendarDate(year, month, day, style)


def earlier(left: CalendarDate, right: CalendarDate) -> bool | None:
    """Return whether `left` is before `right`; None where the surfaces do not settle it."""
    order = compare_dates(left.told, right.told)
    return order < 0 if order else None


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
