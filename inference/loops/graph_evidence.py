"""A question's own graph, and the evidence for its triples: edges, and the text around them."""

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from inference.indexes.focused import Extractor
from inference.loops.model import search_passages
from inference.loops.trace import Trace
from inference.retrieval.passages import Passage, Retriever
from models.files.sentence_encoder import SentenceEncoder
from models.formats.conditions import claim, relation_words
from models.formats.planning import folded
from models.formats.prompts import passage_text
from models.formats.query_triplets import QueryTriplet, is_placeholder
from models.formats.triples import Triple

_QUALIFIER = re.compile(r"\s*\([^()]*\)$")
KnowledgeUsed = Literal["both", "graph", "text"]


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
        """Return facts about what a triplet names, those with its relation first (eq. 8, KG-Query).

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
        """Return keys of what may stand in a triplet's one open end, by an edge of its relation."""
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
        """Return whether an edge says what a triplet without an open field says."""
        relation = relation_words(triplet.predicate)
        ends = (name_key(triplet.subject), name_key(triplet.object))
        return any(
            (name_key(triple.subject), name_key(triple.object)) == ends
            and relation_words(triple.predicate) == relation
            for triple in self._facts
        )

    def called(self, name: str) -> list[Passage]:
        """Return the passages whose title is this name, whatever tells them apart behind it."""
        wanted = name_key(name)
        return [p for p in self._passages.values() if p.title and name_key(p.title) == wanted]


def meant_title(
    name: str, passages: Sequence[Passage], context: str, encoder: SentenceEncoder
) -> str:
    """Return which of several things of this name is meant, as its passage's title (Trig-Nav §3.4).

    passages: as `QuestionGraph.called` gives them. A title that is exactly the name, with what
    tells it apart, is meant; else the one whose text is most similar to `context`.
    """
    exact = [p.title for p in passages if folded(p.title) == folded(name) != name_key(name)]
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
    """Return `most` facts whose claims are most similar to what is asked, in the order given.

    most: 0 for all of them.
    """
    if not most or len(facts) <= most:
        return list(facts)
    vectors = encoder.encode([asked, *(claim(fact.triple) for fact in facts)])
    similarities = vectors[1:] @ vectors[0]
    kept = sorted(range(len(facts)), key=lambda place: -float(similarities[place]))[:most]
    return [facts[place] for place in sorted(kept)]


def name_key(name: str) -> str:
    """Return a name without case and without what tells it apart from others, "(1966 film)"."""
    return _QUALIFIER.sub("", folded(name)) or folded(name)


def _shared(asked: Iterable[str], predicate: str) -> int:
    """Return 2 for the same relation, 1 for a word in common, 0 for other words."""
    wanted, words = set(asked), set(relation_words(predicate).split())
    return 2 if wanted == words else int(bool(wanted & words))


@dataclass(frozen=True)
class FoundEvidence:
    """Facts and passages found for one or several triples.

    context: what of them a resolver reads, facts as claims, then passages; empty for nothing.
    """

    facts: list[Triple]
    passages: list[Passage]
    context: list[str]


@dataclass(frozen=True)
class EvidenceSettings:
    """top_k: passages a search. max_facts: edges shown; 0 shows all. knowledge: what is shown, both
    or, as in Table 3, graph or text alone.
    """

    top_k: int = 5
    max_facts: int = 8
    knowledge: KnowledgeUsed = "both"


class EvidenceGatherer:
    """Searches text and graph; one instance serves many questions."""

    def __init__(
        self,
        retriever: Retriever,
        extractor: Extractor,
        encoder: SentenceEncoder,
        settings: EvidenceSettings,
    ) -> None:
        """encoder: tells apart things of one name, and facts where there are more than fit."""
        self.retriever = retriever
        self.extractor = extractor
        self.encoder = encoder
        self.settings = settings

    async def search(self, queries: Sequence[str], trace: Trace) -> list[list[Passage]]:
        """Return the passages for each query."""
        return await search_passages(self.retriever, queries, self.settings.top_k, trace)

    async def triples_of(self, passages: Sequence[Passage], trace: Trace) -> list[list[Triple]]:
        """Return the triples of each passage."""
        with trace.stage("extract"):
            return await self.extractor.extract(passages, trace.bill)

    async def retrieve(
        self, queries: Sequence[str], graph: QuestionGraph, trace: Trace
    ) -> list[list[Passage]]:
        """Return the passages for each query; they and their triples join the graph (eq. 1).

        Where text alone is used, no triples are extracted.
        """
        found = await self.search(queries, trace)
        distinct = list({passage.id: passage for own in found for passage in own}.values())
        triples: list[list[Triple]] = [[] for _ in distinct]
        if self.settings.knowledge != "text":
            triples = await self.triples_of(distinct, trace)
        graph.add(distinct, triples)
        return found

    async def gather(
        self,
        group: Sequence[QueryTriplet],
        question: str,
        graph: QuestionGraph,
        trace: Trace,
        notes: list[str],
    ) -> FoundEvidence:
        """Return what is known about triples that share their unknown.

        question: what is asked, to tell apart several things of one name; what it took one for
        goes into `notes`. Where several triples ask for one thing, facts about what fits all of
        them come first.
        """
        found = await self.retrieve([triplet.proposition for triplet in group], graph, trace)
        others = await self._other_titles(group, question, graph, notes)
        passages = {p.id: p for own in found for p in own if p.title not in others}
        facts = {f.triple: f for triplet in group for f in graph.query(triplet, others)}
        chosen = _common_first(list(facts.values()), group, graph)
        asked = " ".join([question, *(triplet.proposition for triplet in group)])
        chosen = await asyncio.to_thread(
            nearest_facts, chosen, asked, self.settings.max_facts, self.encoder
        )
        triples = [fact.triple for fact in chosen]
        claims = map(claim, triples) if self.settings.knowledge != "text" else ()
        texts = (passage_text(p.title, p.text) for p in passages.values())
        context = [*claims, *(texts if self.settings.knowledge != "graph" else ())]
        return FoundEvidence(triples, list(passages.values()), context)

    async def _other_titles(
        self, group: Sequence[QueryTriplet], context: str, graph: QuestionGraph, notes: list[str]
    ) -> set[str]:
        """Return the titles of what has a name of the triples but is not meant."""
        named = [f for t in group for f in (t.subject, t.object) if not is_placeholder(f)]
        others: set[str] = set()
        for name in dict.fromkeys(named):
            called = graph.called(name)
            titles = {passage.title for passage in called}
            if len(titles) > 1:
                meant = await asyncio.to_thread(meant_title, name, called, context, self.encoder)
                notes.append(f"{name!r} is taken for {meant!r}, one of {len(titles)}")
                others |= titles - {meant}
        return others


def _common_first(
    facts: list[GraphFact], group: Sequence[QueryTriplet], graph: QuestionGraph
) -> list[GraphFact]:
    """Return the facts about what fits all triples of the group before the others."""
    sets = [graph.candidates(triplet) for triplet in group] if len(group) > 1 else []
    common = set.intersection(*sets) if sets else set[str]()

    def is_other(fact: GraphFact) -> bool:
        return not {name_key(fact.triple.subject), name_key(fact.triple.object)} & common

    return sorted(facts, key=is_other) if common else facts
