"""The whole world from a seed: places, persons, their families, lives, organisations and works."""

from collections import defaultdict
from random import Random

from data_gen.world import names as patterns
from data_gen.world.names import NameMaker
from data_gen.world.schema import Entity, Kind, World, entity_counts, random_date

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


OCCUPATIONS = (
    "painter", "botanist", "violinist", "architect", "journalist", "chemist", "lawyer", "actor",
    "engineer", "poet", "surgeon", "historian", "photographer", "economist", "geologist",
    "translator", "sculptor", "astronomer", "playwright", "librarian",
)  # fmt: skip
AWARD_PATTERNS = ("{root} Prize", "{root} Medal", "Order of {root}", "{root} Award")
FIRST_BIRTH_YEAR, LAST_BIRTH_YEAR = 1880, 2000
# Told in the object's passage and not in the subject's: one such fact in thirty-three.
INVERSE_PREDICATES = ("director", "author", "performer", "founded by")
INVERSE_SHARE = 0.03


def _spread(rng: Random, children: list[Entity], parents: list[Entity]) -> list[Entity]:
    """Return a parent for each child, every parent once if there are children enough."""
    own = [parents[i] if i < len(parents) else rng.choice(parents) for i in range(len(children))]
    rng.shuffle(own)
    return own


def add_places(world: World, rng: Random, names: NameMaker, counts: dict[Kind, int]) -> None:
    """Add the map: a city names its region, a region its country, both levels their capital."""
    countries = [world.add(Kind.COUNTRY, names.root(3)) for _ in range(counts[Kind.COUNTRY])]
    regions = [world.add(Kind.REGION, names.root(3)) for _ in range(counts[Kind.REGION])]
    cities = [world.add(Kind.CITY, names.root()) for _ in range(counts[Kind.CITY])]
    cities_of: dict[int, list[Entity]] = {entity.index: [] for entity in countries + regions}
    for region, country in zip(regions, _spread(rng, regions, countries), strict=True):
        world.relate(region, "country", country)
    for city, region in zip(cities, _spread(rng, cities, regions), strict=True):
        world.relate(city, "located in", region)
        cities_of[region.index].append(city)
        country_index = world.facts[region.index]["country"].object
        assert country_index is not None
        cities_of[country_index].append(city)
    for entity in countries + regions:
        world.relate(entity, "capital", rng.choice(cities_of[entity.index]))
    for entity in countries + regions + cities:
        _add_details(world, rng, names, entity)


def _add_details(world: World, rng: Random, names: NameMaker, place: Entity) -> None:
    if place.kind is Kind.COUNTRY:
        world.describe(place, "official language", names.root(2) + "ish")
    if rng.random() < 0.7:
        world.date(place, "inception", random_date(rng, 1100, 1899, year_only=0.7))
    if rng.random() < 0.7:
        world.describe(place, "population", f"{rng.randint(21, 9_800) * 1_000 + 100:,}")


def country_of_city(world: World, city: Entity) -> Entity:
    """Return the country of the region in which a city lies."""
    region = world.facts[city.index]["located in"].object
    assert region is not None
    country = world.facts[region]["country"].object
    assert country is not None
    return world.entities[country]


class _Ages:
    """People by gender and year of birth, to find a parent or spouse of a fitting age."""

    def __init__(self) -> None:
        self._by_year: dict[tuple[str, int], list[Entity]] = defaultdict(list)

    def add(self, person: Entity, year: int) -> None:
        self._by_year[person.gender, year].append(person)

    def pick(self, rng: Random, gender: str, first: int, last: int) -> Entity | None:
        years = [year for year in range(first, last + 1) if self._by_year.get((gender, year))]
        return rng.choice(self._by_year[gender, rng.choice(years)]) if years else None


def add_people(world: World, rng: Random, names: NameMaker, count: int) -> None:
    """Add `count` persons, the oldest first, with dates of birth and families."""
    years = sorted(rng.randint(FIRST_BIRTH_YEAR, LAST_BIRTH_YEAR) for _ in range(count))
    ages = _Ages()
    for year in years:
        gender = rng.choice("fm")
        father = ages.pick(rng, "m", year - 45, year - 22) if rng.random() < 0.4 else None
        mother = _mother(world, rng, ages, father, year)
        surname = father.name.split()[-1] if father else names.surname()
        person = world.add(Kind.PERSON, names.person(gender, surname), gender)
        world.describe(person, "occupation", rng.choice(OCCUPATIONS))
        world.date(person, "date of birth", random_date(rng, year, year, year_only=0.15))
        if father:
            world.relate(person, "father", father)
        if mother:
            world.relate(person, "mother", mother)
        _marry(world, rng, ages, person, year)
        ages.add(person, year)


def _mother(
    world: World, rng: Random, ages: _Ages, father: Entity | None, year: int
) -> Entity | None:
    """Return the father's wife where she is of age, or now and then some other woman."""
    if father and "spouse" in world.facts[father.index]:
        wife = world.facts[father.index]["spouse"].object
        assert wife is not None
        born = world.facts[wife]["date of birth"].date
        assert born is not None
        return world.entities[wife] if year - 45 <= born.year <= year - 18 else None
    if rng.random() < 0.3:
        return ages.pick(rng, "f", year - 42, year - 20)
    return None


def _marry(world: World, rng: Random, ages: _Ages, person: Entity, year: int) -> None:
    """Marry a person, half of the time, to somebody who is single and no close relative."""
    if rng.random() < 0.35:
        return
    other = "m" if person.gender == "f" else "f"
    spouse = ages.pick(rng, other, year - 10, year)
    if spouse is None or "spouse" in world.facts[spouse.index]:
        return
    if spouse.name.split()[-1] == person.name.split()[-1]:
        return
    world.relate(person, "spouse", spouse)
    world.relate(spouse, "spouse", person)


def add_lives(world: World, rng: Random, names: NameMaker) -> None:
    """Add where people were born and what they did, once places and organisations exist."""
    people = world.of_kind(Kind.PERSON)
    cities, countries = world.of_kind(Kind.CITY), world.of_kind(Kind.COUNTRY)
    groups = {
        "educated at": (world.of_kind(Kind.UNIVERSITY), 0.5),
        "employer": (world.of_kind(Kind.COMPANY), 0.4),
        "member of sports team": (world.of_kind(Kind.CLUB), 0.15),
    }
    awards = [names.from_pattern(AWARD_PATTERNS) for _ in range(max(6, int(len(people) ** 0.5)))]
    for person in people:
        birthplace = rng.choice(cities)
        home = country_of_city(world, birthplace) if rng.random() < 0.7 else rng.choice(countries)
        if rng.random() < 0.8:
            world.relate(person, "place of birth", birthplace)
        if rng.random() < 0.8:
            world.relate(person, "country of citizenship", home)
        if rng.random() < 0.3:
            world.describe(person, "award received", rng.choice(awards))
        for predicate, (choices, probability) in groups.items():
            if rng.random() < probability:
                world.relate(person, predicate, rng.choice(choices))


def build_population(entities: int, seed: int) -> World:
    """Return a world of `entities` entities; the same arguments give the same world.

    Raises:
        ValueError: too few entities for a world.
    """
    counts = entity_counts(entities)
    rng = Random(f"trivium-world/{seed}/population")
    world = World()
    names = NameMaker(rng, counts[Kind.PERSON])
    add_places(world, rng, names, counts)
    add_people(world, rng, names, counts[Kind.PERSON])
    add_organisations(world, rng, names, counts)
    add_works(world, rng, names, counts)
    add_offices(world, rng)
    add_lives(world, rng, names)
    _move_some_facts(world, rng)
    return world


def _move_some_facts(world: World, rng: Random) -> None:
    """Let a few facts be told by the passage of their object, at most one a passage."""
    hosts: set[int] = set()
    for facts in world.facts:
        for predicate in INVERSE_PREDICATES:
            fact = facts.get(predicate)
            if fact is None or rng.random() >= INVERSE_SHARE:
                continue
            if fact.object is not None and fact.object not in hosts:
                hosts.add(fact.object)
                world.home[fact.key] = fact.object
