"""A question's own graph: the triples of what was retrieved, each with its text
(Trig-Nav §3.2, eq. 1)."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from inference.retrieval.passages import Passage
from models.formats.claims import claim, relation_words
from models.formats.history import one_line
from models.formats.prompts import passage_text
from models.formats.query_triplets import QueryTriplet, is_placeholder
from models.formats.triples import Triple
from models.sentence_encoder import SentenceEncoder

_QUALIFIER = re.compile(r"\s*\([^()]*\)$")


@dataclass(frozen=True)
class GraphFact:
    """An edge and the passage that it was read in."""

    triple: Triple
    passage: Passage


class QuestionGraph:
    """Grows as passages are retrieved; one instance a question."""

    def __init__(self) -> None:
        self._facts: dict[Triple, GraphFact] = {}
        self._passages: dict[str, Passage] = {}

    def __len__(self) -> int:
        return len(self._facts)

    def add(self, passages: Sequence[Passage], triples: Sequence[Sequence[Triple]]) -> None:
        """Add passages with the triples of each; an edge keeps the first text that tells it."""
        for passage, own in zip(passages, triples, strict=True):
            self._passages.setdefault(passage.id, passage)
            for triple in own:
                self._facts.setdefault(triple, GraphFact(triple, passage))

    def query(self, triplet: QueryTriplet, without: Collection[str] = ()) -> list[GraphFact]:
        """Facts about what a triplet names, those with its relation first (eq. 8, KG-Query).

        without: titles whose facts are left out, as they are about another thing of the name.
        """
        names = [name_key(f) for f in (triplet.subject, triplet.object) if not is_placeholder(f)]
        about = [
            fact
            for fact in self._facts.values()
            if fact.passage.title not in without
            and {name_key(fact.triple.subject), name_key(fact.triple.object)} & set(names)
        ]
        asked = set(relation_words(triplet.predicate).split())
        return sorted(about, key=lambda fact: -_shared(asked, fact.triple.predicate))

    def candidates(self, triplet: QueryTriplet) -> set[str]:
        """Keys of what may stand in the one open end of a triplet, by an edge of its relation."""
        found = set()
        relation = relation_words(triplet.predicate)
        for fact in self._facts.values():
            if relation_words(fact.triple.predicate) == relation:
                one, other = name_key(fact.triple.subject), name_key(fact.triple.object)
                if is_placeholder(triplet.subject) and other == name_key(triplet.object):
                    found.add(one)
                elif is_placeholder(triplet.object) and one == name_key(triplet.subject):
                    found.add(other)
        return found

    def holds(self, triplet: QueryTriplet) -> bool:
        """Whether an edge says what a triplet without an open field says."""
        relation = relation_words(triplet.predicate)
        ends = (name_key(triplet.subject), name_key(triplet.object))
        return any(
            (name_key(triple.subject), name_key(triple.object)) == ends
            and relation_words(triple.predicate) == relation
            for triple in self._facts
        )

    def called(self, name: str) -> list[Passage]:
        """The passages whose title is this name, whatever tells them apart behind it."""
        wanted = name_key(name)
        return [p for p in self._passages.values() if p.title and name_key(p.title) == wanted]


def meant_title(
    name: str, passages: Sequence[Passage], context: str, encoder: SentenceEncoder
) -> str:
    """Which of several things of this name is meant, as its passage's title (Trig-Nav §3.4).

    passages: as `QuestionGraph.called` gives them. A title that is exactly the name, with what
    tells it apart, is meant; else the one whose text is most similar to `context`.
    """
    exact = [p.title for p in passages if _plain(p.title) == _plain(name) != name_key(name)]
    if exact:
        return exact[0]
    texts = [passage_text(passage.title, passage.text) for passage in passages]
    vectors = encoder.encode([context, *texts])
    similarities = vectors[1:] @ vectors[0]
    best = max(range(len(passages)), key=lambda place: float(similarities[place]))
    return passages[best].title


def nearest_facts(
    facts: Sequence[GraphFact], asked: str, most: int, encoder: SentenceEncoder
) -> list[GraphFact]:
    """The `most` facts whose claims are most similar to what is asked, in the order given."""
    if len(facts) <= most:
        return list(facts)
    vectors = encoder.encode([asked, *(claim(fact.triple) for fact in facts)])
    similarities = vectors[1:] @ vectors[0]
    kept = sorted(range(len(facts)), key=lambda place: -float(similarities[place]))[:most]
    return [facts[place] for place in sorted(kept)]


def name_key(name: str) -> str:
    """A name without case and without what tells it apart from others, "(1966 film)"."""
    return _QUALIFIER.sub("", _plain(name)) or _plain(name)


def _plain(name: str) -> str:
    return one_line(name).casefold()


def _shared(asked: Iterable[str], predicate: str) -> int:
    """2 for the same relation, 1 for a word in common, 0 for other words."""
    wanted, words = set(asked), set(relation_words(predicate).split())
    return 2 if wanted == words else int(bool(wanted & words))
