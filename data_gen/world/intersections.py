"""Questions for the one entity that meets two conditions."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

from data_gen.world.drafts import Draft, Library
from data_gen.world.question_wording import CONDITIONS, INTERSECTION_FORMS, QUESTIONS
from data_gen.world.schema import Entity, Fact, Kind


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
        """A question whose conditions hold of others singly, and together of one entity."""
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
        """The entity's facts that may be conditions, in the order of the table."""
        facts = self._library.world.facts[entity.index]
        return [facts[predicate] for predicate in CONDITIONS[entity.kind] if predicate in facts]


def _pair_key(kind: Kind, one: Fact, two: Fact) -> tuple[Kind, str, str, str, str]:
    return kind, one.predicate, one.surface, two.predicate, two.surface
