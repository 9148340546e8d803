"""Questions over chains of relations, and for the one entity that meets two conditions."""

from collections import Counter
from itertools import combinations
from random import Random

from data_gen.world.drafts import Draft, Library, plain
from data_gen.world.question_wording import (
    CONDITIONS,
    INTERSECTION_FORMS,
    PHRASES,
    QUESTIONS,
    ask,
    mention,
)
from data_gen.world.schema import Entity, Fact, Kind

# Chains start more often from things that lead somewhere.
START_WEIGHTS = {
    Kind.FILM: 30,
    Kind.SONG: 18,
    Kind.NOVEL: 14,
    Kind.PERSON: 18,
    Kind.COMPANY: 8,
    Kind.UNIVERSITY: 4,
    Kind.CLUB: 3,
    Kind.LABEL: 3,
    Kind.CITY: 1,
    Kind.REGION: 1,
}


def make_single(library: Library, rng: Random) -> Draft | None:
    """Return a question about one fact of a random entity."""
    entity = rng.choice(library.world.entities)
    fact = rng.choice(list(library.world.facts[entity.index].values()))
    question = ask(rng, fact.predicate, mention(rng, entity))
    if plain(fact.surface) in plain(question):
        return None
    return Draft(
        "single", question, fact.surface, (fact,), (question,), (fact.surface,), _aliases(fact)
    )


def make_chain(library: Library, rng: Random, hops: int) -> Draft | None:
    """Return a chain such as "Who is the spouse of the director of X?", or None for a dead end.

    The answer stands in no passage before the last one, so that no step can be left out.
    """
    kind = rng.choices(list(START_WEIGHTS), weights=list(START_WEIGHTS.values()))[0]
    start = rng.choice(library.by_kind[kind])
    facts = _walk(library, rng, start, hops)
    if facts is None:
        return None
    asked = mention(rng, start)
    for fact in facts[:-1]:
        asked = rng.choice(PHRASES[fact.predicate]).format(x=asked)
    last = facts[-1]
    question = ask(rng, last.predicate, asked)
    if not _needs_every_step(library, question, facts):
        return None
    answers = tuple(fact.surface for fact in facts)
    return Draft(
        "bridge",
        question,
        last.surface,
        facts,
        library.step_questions(rng, facts),
        answers,
        _aliases(last),
    )


def _walk(library: Library, rng: Random, start: Entity, hops: int) -> tuple[Fact, ...] | None:
    """`hops` facts, each about the object of the one before; no entity is met twice."""
    facts: list[Fact] = []
    met = {start.index}
    position = start.index
    for hop in range(hops):
        last = hop == hops - 1
        choices = [
            fact
            for fact in library.world.facts[position].values()
            if fact.object not in met and (last or fact.object is not None)
        ]
        if not choices:
            return None
        # Many things lead to few countries: going through one is made rare.
        weights = [
            0.3 if not last and library.entity(fact).kind is Kind.COUNTRY else 1.0
            for fact in choices
        ]
        facts.append(rng.choices(choices, weights)[0])
        following = facts[-1].object
        if following is not None:
            position = following
            met.add(position)
    return tuple(facts)


def _needs_every_step(library: Library, question: str, facts: tuple[Fact, ...]) -> bool:
    answer = plain(facts[-1].surface)
    if any(plain(fact.surface) in plain(question) for fact in facts):
        return False
    last_home = library.world.home_of(facts[-1])
    earlier = {library.world.home_of(fact) for fact in facts[:-1]}
    return last_home not in earlier and all(
        answer not in library.plain_texts[index] for index in earlier
    )


def _aliases(fact: Fact) -> tuple[str, ...]:
    return tuple(fact.date.aliases) if fact.date else ()


class IntersectionMaker:
    """Knows how many entities meet each condition and each pair of conditions."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._alone: Counter[tuple[Kind, str, str]] = Counter()
        self._both: Counter[tuple[Kind, str, str, str, str]] = Counter()
        for kind in CONDITIONS:
            for entity in library.by_kind[kind]:
                facts = self._facts(entity)
                self._alone.update((kind, fact.predicate, fact.surface) for fact in facts)
                self._both.update(_pair_key(kind, *pair) for pair in combinations(facts, 2))

    def make(self, rng: Random) -> Draft | None:
        """Return a question whose conditions hold of others singly, and together of one entity."""
        kind = rng.choices(list(CONDITIONS), weights=(8, 4, 2, 2))[0]
        entity = rng.choice(self._library.by_kind[kind])
        facts = self._facts(entity)
        if len(facts) < 2:
            return None
        one, two = rng.sample(facts, 2)
        alone = min(self._alone[kind, fact.predicate, fact.surface] for fact in (one, two))
        ordered = (one, two) if facts.index(one) < facts.index(two) else (two, one)
        if alone < 2 or self._both[_pair_key(kind, *ordered)] != 1:
            return None
        phrases = [
            rng.choice(CONDITIONS[kind][fact.predicate]).format(x=fact.surface)
            for fact in (one, two)
        ]
        question = rng.choice(INTERSECTION_FORMS).format(kind=kind, one=phrases[0], two=phrases[1])
        # The first step finds the entity by both conditions, the second confirms the other one.
        steps = (
            f"Which {kind} that {phrases[1]} also {phrases[0]}?",
            rng.choice(QUESTIONS[two.predicate]).format(x=entity.name),
        )
        answers = (entity.name, two.surface)
        return Draft("intersection", question, entity.name, (one, two), steps, answers)

    def _facts(self, entity: Entity) -> list[Fact]:
        """Return the entity's facts that may be conditions, in the order of the table."""
        facts = self._library.world.facts[entity.index]
        return [facts[predicate] for predicate in CONDITIONS[entity.kind] if predicate in facts]


def _pair_key(kind: Kind, one: Fact, two: Fact) -> tuple[Kind, str, str, str, str]:
    return kind, one.predicate, one.surface, two.predicate, two.surface
