"""Countries, their regions and their cities."""

from __future__ import annotations

from random import Random

from data_gen.world.dates import random_date
from data_gen.world.names import NameMaker
from data_gen.world.schema import Entity, Kind, World


def _spread(rng: Random, children: list[Entity], parents: list[Entity]) -> list[Entity]:
    """A parent for each child, every parent at least once where there are children enough."""
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
    """The country of the region in which a city lies."""
    region = world.facts[city.index]["located in"].object
    assert region is not None
    country = world.facts[region]["country"].object
    assert country is not None
    return world.entities[country]
