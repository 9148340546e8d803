"""Propositions: facts in one line each, and which passages state them (T²RAG §4.2)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from models.formats.history import one_line
from models.formats.triples import Triple


@dataclass
class Proposition:
    """A fact as it was first written, and the ids of all passages that state it, in order."""

    fact: Triple
    sources: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What is embedded, see `proposition_text`."""
        return proposition_text(self.fact)


def proposition_text(fact: Triple) -> str:
    """A fact verbalised: "subject predicate object" (T²RAG §4.2, Triplet Embedding)."""
    return one_line(" ".join((fact.subject, fact.predicate, fact.object)))


class PropositionTable:
    """Propositions in the order in which they were first stated; letter case tells none apart."""

    def __init__(self) -> None:
        self.propositions: list[Proposition] = []
        self._by_key: dict[str, Proposition] = {}

    def add(self, source: str, facts: Iterable[Triple]) -> list[Proposition]:
        """Add all that a passage states; returns the propositions that are new."""
        new = []
        for fact in facts:
            key = proposition_text(fact).casefold()
            known = self._by_key.get(key)
            if known is None:
                known = self._by_key[key] = Proposition(fact)
                self.propositions.append(known)
                new.append(known)
            if known.sources[-1:] != [source]:
                known.sources.append(source)
        return new
