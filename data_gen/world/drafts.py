"""The drafts that question makers return, and the tables that they may look up."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from data_gen.world.passages import Passage
from data_gen.world.question_wording import ask
from data_gen.world.schema import Entity, Fact, Kind, World


@dataclass(frozen=True)
class Draft:
    """A question before it is put into a record.

    `facts` are in solving order, with one sub-question each. `template` and `positive` tell
    what is balanced: a yes against a no, the name mentioned first against the second.
    """

    type: str
    question: str
    answer: str
    facts: tuple[Fact, ...] = ()
    sub_questions: tuple[str, ...] = ()
    sub_answers: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    template: str = ""
    positive: bool | None = None


class Library:
    """The world with its passages, indexed for the makers."""

    def __init__(self, world: World, passages: Sequence[Passage]) -> None:
        self.world, self.passages = world, passages
        self.by_kind: dict[Kind, list[Entity]] = {kind: [] for kind in Kind}
        for entity in world.entities:
            self.by_kind[entity.kind].append(entity)
        self.sentence_of = {
            fact.key: (passage.entity.index, number)
            for passage in passages
            for fact, number in passage.told
        }

    @cached_property
    def plain_texts(self) -> list[str]:
        """Passages reduced to lower-case words between single spaces, to look for answers."""
        return [plain(f"{passage.entity.name} {passage.text}") for passage in self.passages]

    def entity(self, fact: Fact) -> Entity:
        """Return the object of a fact about two entities."""
        assert fact.object is not None
        return self.world.entities[fact.object]

    def follow(self, start: Entity, path: Sequence[str]) -> tuple[Fact, ...] | None:
        """Return the facts met on a path of predicates, or None where it breaks off."""
        met: list[Fact] = []
        index: int | None = start.index
        for predicate in path:
            fact = self.world.facts[index].get(predicate) if index is not None else None
            if fact is None:
                return None
            met.append(fact)
            index = fact.object
        return tuple(met)

    def step_questions(self, rng: Random, facts: Sequence[Fact]) -> tuple[str, ...]:
        """Return one sub-question for each fact, each about a name that is known by then."""
        return tuple(
            ask(rng, fact.predicate, self.world.entities[fact.subject].name) for fact in facts
        )


def plain(text: str) -> str:
    """Lower-case words between single spaces, with a space at both ends."""
    return f" {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "
