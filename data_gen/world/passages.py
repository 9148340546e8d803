"""Passages: a few sentences about one entity, and where each fact is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from data_gen.world.passage_wording import (
    CLAUSES,
    FILLERS,
    INTRO_PREDICATES,
    INVERSE_PHRASES,
    OPENERS,
    PAIRS,
    VERB_PHRASES,
)
from data_gen.world.schema import Entity, Fact, Kind, World

LEAST_WORDS, MOST_SENTENCES = 36, 5


@dataclass(frozen=True)
class Passage:
    """Sentences about `entity`; `told` pairs each fact with the index of its sentence."""

    entity: Entity
    sentences: tuple[str, ...]
    told: tuple[tuple[Fact, int], ...]

    @property
    def id(self) -> str:
        return f"p{self.entity.index:06d}"

    @property
    def text(self) -> str:
        return " ".join(self.sentences)


@dataclass(frozen=True)
class _Reference:
    """The word for a sentence's subject: "Vela Koru", "she", "the film"."""

    subject: str
    possessive: str


def write_passages(world: World, seed: int) -> list[Passage]:
    """Return one passage for each entity, in the entities' order."""
    rng = Random(f"trivium-world/{seed}/passages")
    hosted: dict[int, list[Fact]] = {}
    for (subject, predicate), host in world.home.items():
        hosted.setdefault(host, []).append(world.facts[subject][predicate])
    return [
        _Writer(world, entity, rng).write(hosted.get(entity.index, [])) for entity in world.entities
    ]


class _Writer:
    """Writes the passage of one entity."""

    def __init__(self, world: World, entity: Entity, rng: Random) -> None:
        self._world, self._entity, self._rng = world, entity, rng

    def write(self, hosted: Sequence[Fact]) -> Passage:
        """`hosted`: facts whose object is this entity and that are told here alone."""
        own = self._world.facts[self._entity.index].values()
        facts = [fact for fact in own if fact.key not in self._world.home]
        intro_predicate = INTRO_PREDICATES.get(self._entity.kind, ("", ""))[0]
        intro = next((fact for fact in facts if fact.predicate == intro_predicate), None)
        rest = [fact for fact in (*facts, *hosted) if fact is not intro]
        self._rng.shuffle(rest)
        opening, *groups = self._grouped(rest)
        sentences = [self._opening(intro, opening)]
        told = [(fact, 0) for fact in ([intro] if intro else []) + opening]
        for number, group in enumerate(groups, start=1):
            sentences.append(self._sentence(self._reference(), group))
            told += [(fact, number) for fact in group]
        self._pad(sentences)
        return Passage(self._entity, tuple(sentences), tuple(told))

    def _grouped(self, facts: list[Fact]) -> list[list[Fact]]:
        """At most one fact for the opening, then one or two a sentence."""
        first = 1 if facts and _has_phrase(self._entity, facts[0]) else 0
        opening, rest = facts[:first], list(facts[first:])
        groups: list[list[Fact]] = []
        while rest:
            fact = rest.pop()
            partner = next((other for other in rest if _pair(fact, other)), None)
            crowded = len(groups) + len(rest) >= MOST_SENTENCES - 1
            if partner is None and rest and (crowded or self._rng.random() < 0.4):
                partner = rest[-1]
            if partner is not None:
                rest.remove(partner)
            groups.append([fact] if partner is None else [fact, partner])
        return [opening, *groups]

    def _opening(self, intro: Fact | None, facts: Sequence[Fact]) -> str:
        name, kind = self._entity.name, self._entity.kind
        noun = str(kind)
        if intro is not None:
            noun = INTRO_PREDICATES[kind][1].format(o=intro.surface)
        described = f"{_article(noun)} {noun}"
        if not facts:
            return _finish(f"{name} is {described}")
        phrase = self._phrase(facts[0])
        link = "who" if kind is Kind.PERSON else "that"
        forms = [
            f"{name}, {described}, {phrase}",
            f"{name} is {described} {link} {phrase}",
            f"the {noun} {name} {phrase}",
        ]
        openers = self._openers(facts[0])
        if openers:
            forms.append(f"{name} is {described} {openers[0]}")
        return _finish(self._rng.choice(forms))

    def _sentence(self, reference: _Reference, facts: Sequence[Fact]) -> str:
        if len(facts) == 1:
            return _finish(self._clause(reference, facts[0]))
        ordered = _pair(facts[0], facts[1])
        if ordered is not None and self._rng.random() < 0.8:
            return _finish(
                _fill(
                    self._pick(PAIRS[ordered[0].predicate, ordered[1].predicate]),
                    reference,
                    *ordered,
                )
            )
        return _finish(self._joined(reference, facts[0], facts[1]))

    def _joined(self, reference: _Reference, first: Fact, second: Fact) -> str:
        """Return two facts in one sentence: joined verbs, an opener, or two clauses."""
        both = _has_phrase(self._entity, first) and _has_phrase(self._entity, second)
        forms = [
            f"{self._clause(reference, first)}, and {self._clause(self._pronoun(), second)}",
        ]
        if both:
            phrases = self._phrase(first), self._phrase(second)
            forms.append(f"{reference.subject} {phrases[0]} and {phrases[1]}")
            openers = self._openers(first)
            if openers and _pair(first, second) is None:
                forms.append(f"{openers[0]}, {reference.subject} {phrases[1]}")
        return self._pick(forms)

    def _clause(self, reference: _Reference, fact: Fact) -> str:
        clauses = () if fact.subject != self._entity.index else CLAUSES.get(fact.predicate, ())
        if clauses and (not _has_phrase(self._entity, fact) or self._rng.random() < 0.35):
            return _fill(self._pick(clauses), reference, fact)
        return f"{reference.subject} {self._phrase(fact)}"

    def _phrase(self, fact: Fact) -> str:
        if fact.subject != self._entity.index:
            template = self._pick(INVERSE_PHRASES[fact.predicate])
            return template.format(o=self._world.entities[fact.subject].name)
        return _fill(self._pick(VERB_PHRASES[fact.predicate]), _Reference("", ""), fact)

    def _openers(self, fact: Fact) -> list[str]:
        own = fact.subject == self._entity.index
        templates = OPENERS.get(fact.predicate, ()) if own else ()
        return [_fill(self._pick(templates), _Reference("", ""), fact)] if templates else []

    def _reference(self) -> _Reference:
        """After the first sentence: mostly a pronoun or "the film", now and then the name."""
        if self._rng.random() < 0.2:
            return _Reference(self._entity.name, f"{self._entity.name}'s")
        if self._entity.kind is not Kind.PERSON and self._rng.random() < 0.6:
            noun = "label" if self._entity.kind is Kind.LABEL else str(self._entity.kind)
            return _Reference(f"the {noun}", f"the {noun}'s")
        return self._pronoun()

    def _pronoun(self) -> _Reference:
        if self._entity.kind is Kind.PERSON:
            female = self._entity.gender == "f"
            return _Reference("she", "her") if female else _Reference("he", "his")
        return _Reference("it", "its")

    def _pad(self, sentences: list[str]) -> None:
        """Add sentences that tell no fact, so that short passages are not bare lists."""
        fillers = list(FILLERS[self._entity.kind])
        self._rng.shuffle(fillers)
        while fillers and len(sentences) < MOST_SENTENCES:
            enough = sum(len(sentence.split()) for sentence in sentences) >= LEAST_WORDS
            if len(sentences) >= 2 and enough:
                return
            sentences.append(fillers.pop())

    def _pick(self, choices: Sequence[str]) -> str:
        return self._rng.choice(choices)


def _has_phrase(entity: Entity, fact: Fact) -> bool:
    return fact.subject != entity.index or fact.predicate in VERB_PHRASES


def _pair(left: Fact, right: Fact) -> tuple[Fact, Fact] | None:
    """Return the two facts in the order in which one phrase tells both, or None."""
    if left.subject != right.subject:
        return None
    if (left.predicate, right.predicate) in PAIRS:
        return left, right
    if (right.predicate, left.predicate) in PAIRS:
        return right, left
    return None


def _fill(template: str, reference: _Reference, fact: Fact, second: Fact | None = None) -> str:
    return template.format(
        o=fact.surface,
        on=fact.date.preposition if fact.date else "",
        s=reference.subject,
        pos=reference.possessive,
        o2=second.surface if second else "",
    )


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" and not noun.startswith("uni") else "a"


def _finish(sentence: str) -> str:
    return f"{sentence[0].upper()}{sentence[1:]}."
