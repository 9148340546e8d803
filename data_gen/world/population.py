"""The whole world from a seed."""

from __future__ import annotations

from random import Random

from data_gen.world.creations import add_offices, add_organisations, add_works
from data_gen.world.names import NameMaker
from data_gen.world.people import add_lives, add_people
from data_gen.world.places import add_places
from data_gen.world.schema import Kind, World, entity_counts

# Told in the object's passage and not in the subject's: one such fact in thirty-three.
INVERSE_PREDICATES = ("director", "author", "performer", "founded by")
INVERSE_SHARE = 0.03


def build_population(entities: int, seed: int) -> World:
    """A world of `entities` entities; the same arguments give the same world.

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
