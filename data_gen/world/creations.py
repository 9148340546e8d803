"""Organisations and works, and the people behind them."""

from __future__ import annotations

from random import Random

from data_gen.world import names as patterns
from data_gen.world.dates import random_date
from data_gen.world.names import NameMaker
from data_gen.world.schema import Entity, Kind, World

FILM_GENRES = ("drama", "comedy", "thriller", "western", "science fiction", "horror", "romance")
NOVEL_GENRES = ("crime", "fantasy", "historical", "adventure", "gothic", "satirical")
SONG_GENRES = ("folk", "jazz", "soul", "punk", "synth-pop", "reggae", "ambient")
INDUSTRIES = ("shipping", "textile", "mining", "software", "publishing", "railway", "chemical")
SPORTS = ("football", "handball", "rowing", "hockey", "volleyball", "cycling")
LAST_YEAR = 2024
UNIVERSITY_PATTERNS = ("University of {root}", "{root} University", "{root} Institute")


def _year_after(world: World, rng: Random, person: Entity, lead: tuple[int, int]) -> int:
    born = world.facts[person.index]["date of birth"].date
    assert born is not None
    first = born.year + lead[0]
    return rng.randint(first, max(first, min(born.year + lead[1], LAST_YEAR)))


def _founded(world: World, rng: Random, organisation: Entity, founder: Entity) -> None:
    world.relate(organisation, "founded by", founder)
    year = _year_after(world, rng, founder, (21, 45))
    world.date(organisation, "inception", random_date(rng, year, year, year_only=0.5))


def _name_maybe_after_city(
    rng: Random, names: NameMaker, city: Entity, choices: tuple[str, ...]
) -> str:
    if rng.random() < 0.25:
        return names.around_city(city.name, choices)
    return names.from_pattern(choices)


def add_organisations(world: World, rng: Random, names: NameMaker, counts: dict[Kind, int]) -> None:
    """Add companies, universities, clubs and labels; the people exist already."""
    people, cities = world.of_kind(Kind.PERSON), world.of_kind(Kind.CITY)
    companies = []
    for _ in range(counts[Kind.COMPANY]):
        company = world.add(Kind.COMPANY, names.from_pattern(patterns.COMPANY_PATTERNS))
        companies.append(company)
        _founded(world, rng, company, rng.choice(people))
        world.describe(company, "industry", rng.choice(INDUSTRIES))
        world.relate(company, "headquarters location", rng.choice(cities))
        if rng.random() < 0.5:
            world.relate(company, "chief executive officer", rng.choice(people))
    for _ in range(counts[Kind.LABEL]):
        label = world.add(Kind.LABEL, names.from_pattern(patterns.LABEL_PATTERNS))
        _founded(world, rng, label, rng.choice(people))
        world.relate(label, "headquarters location", rng.choice(cities))
    for _ in range(counts[Kind.UNIVERSITY]):
        city = rng.choice(cities)
        name = _name_maybe_after_city(rng, names, city, UNIVERSITY_PATTERNS)
        university = world.add(Kind.UNIVERSITY, name)
        world.relate(university, "located in", city)
        world.date(university, "inception", random_date(rng, 1400, 1950, year_only=0.7))
        if rng.random() < 0.7:
            world.relate(university, "chancellor", rng.choice(people))
    for _ in range(counts[Kind.CLUB]):
        city = rng.choice(cities)
        name = _name_maybe_after_city(rng, names, city, patterns.CLUB_PATTERNS)
        club = world.add(Kind.CLUB, name)
        world.describe(club, "sport", rng.choice(SPORTS))
        world.relate(club, "headquarters location", city)
        world.relate(club, "head coach", rng.choice(people))
        world.date(club, "inception", random_date(rng, 1860, 1980, year_only=0.5))
        if rng.random() < 0.4:
            world.relate(club, "owned by", rng.choice(companies))


def _made(world: World, rng: Random, work: Entity, role: str, maker: Entity) -> None:
    world.relate(work, role, maker)
    year = _year_after(world, rng, maker, (22, 60))
    world.date(work, "publication date", random_date(rng, year, year, year_only=0.3))


def add_works(world: World, rng: Random, names: NameMaker, counts: dict[Kind, int]) -> None:
    """Add novels, songs and films; people and organisations exist already."""
    people, countries = world.of_kind(Kind.PERSON), world.of_kind(Kind.COUNTRY)
    companies, labels = world.of_kind(Kind.COMPANY), world.of_kind(Kind.LABEL)
    # A third of the people make all works, so that many have made more than one.
    makers = rng.sample(people, max(4, len(people) // 3))
    for _ in range(counts[Kind.NOVEL]):
        novel = world.add(Kind.NOVEL, names.from_pattern(patterns.NOVEL_PATTERNS))
        _made(world, rng, novel, "author", rng.choice(makers))
        world.describe(novel, "genre", rng.choice(NOVEL_GENRES))
        world.relate(novel, "country of origin", rng.choice(countries))
        if rng.random() < 0.7:
            world.relate(novel, "publisher", rng.choice(companies))
    for _ in range(counts[Kind.SONG]):
        song = world.add(Kind.SONG, names.from_pattern(patterns.SONG_PATTERNS))
        _made(world, rng, song, "performer", rng.choice(makers))
        world.describe(song, "genre", rng.choice(SONG_GENRES))
        world.relate(song, "record label", rng.choice(labels))
        if rng.random() < 0.5:
            world.relate(song, "lyrics by", rng.choice(makers))
    novels = world.of_kind(Kind.NOVEL)
    for _ in range(counts[Kind.FILM]):
        film = world.add(Kind.FILM, names.from_pattern(patterns.FILM_PATTERNS))
        _made(world, rng, film, "director", rng.choice(makers))
        world.describe(film, "genre", rng.choice(FILM_GENRES))
        world.relate(film, "country of origin", rng.choice(countries))
        if rng.random() < 0.6:
            world.relate(film, "production company", rng.choice(companies))
        if rng.random() < 0.4:
            world.relate(film, "screenwriter", rng.choice(makers))
        if rng.random() < 0.2:
            world.relate(film, "based on", rng.choice(novels))


def add_offices(world: World, rng: Random) -> None:
    """Give cities their mayors and countries their heads of state."""
    people = world.of_kind(Kind.PERSON)
    for city in world.of_kind(Kind.CITY):
        if rng.random() < 0.8:
            world.relate(city, "mayor", rng.choice(people))
    for country in world.of_kind(Kind.COUNTRY):
        world.relate(country, "head of state", rng.choice(people))
