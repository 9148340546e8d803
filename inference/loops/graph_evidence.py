"""Evidence for a question's triples: edges of its own graph, and the text around them
(Trig-Nav §3.4, eq. 8)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inference.extraction import TripleExtractor
from inference.loops.question_graph import (
    GraphFact,
    QuestionGraph,
    meant_title,
    name_key,
    nearest_facts,
)
from inference.loops.trace import Trace
from inference.retrieval.passages import Passage, Retriever
from models.formats.claims import claim
from models.formats.prompts import passage_text
from models.formats.query_triplets import QueryTriplet, is_placeholder
from models.formats.triples import Triple
from models.sentence_encoder import SentenceEncoder

KnowledgeUsed = Literal["both", "graph", "text"]
KNOWLEDGE_USED = ("both", "graph", "text")


@dataclass(frozen=True)
class Evidence:
    """Facts and passages found for one or several triples.

    context: what of them a resolver reads, facts as claims, then passages; empty for nothing.
    """

    facts: list[Triple]
    passages: list[Passage]
    context: list[str]


@dataclass(frozen=True)
class EvidenceSettings:
    """top_k: passages a search. max_facts: edges shown. knowledge: what is shown, both or, as in
    Table 3, graph or text alone.
    """

    top_k: int = 5
    max_facts: int = 8
    knowledge: KnowledgeUsed = "both"


class EvidenceGatherer:
    """Searches text and graph; one instance serves many questions."""

    def __init__(
        self,
        retriever: Retriever,
        extractor: TripleExtractor,
        encoder: SentenceEncoder,
        settings: EvidenceSettings,
    ) -> None:
        """encoder: compares texts where a name means several things, and facts where there are
        more than fit.
        """
        self.retriever = retriever
        self.extractor = extractor
        self.encoder = encoder
        self.settings = settings

    async def search(self, queries: Sequence[str], trace: Trace) -> list[list[Passage]]:
        """Passages for each query."""
        with trace.bill.stage("retrieve"):
            found = await asyncio.to_thread(
                self.retriever.search, list(queries), self.settings.top_k
            )
        return [[hit.passage for hit in hits] for hits in found]

    async def triples_of(self, passages: Sequence[Passage], trace: Trace) -> list[list[Triple]]:
        """The triples of each passage."""
        with trace.bill.stage("extract"):
            return await self.extractor.extract(passages, trace.bill)

    async def retrieve(
        self, queries: Sequence[str], graph: QuestionGraph, trace: Trace
    ) -> list[list[Passage]]:
        """Passages for each query; they and their triples join the graph (eq. 1).

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
    ) -> Evidence:
        """What is known about triples that share their unknown.

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
        return Evidence(triples, list(passages.values()), context)

    async def _other_titles(
        self, group: Sequence[QueryTriplet], context: str, graph: QuestionGraph, notes: list[str]
    ) -> set[str]:
        """Titles of what has a name of the triples but is not meant."""
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
    """Facts about what fits all triples of the group before the others."""
    sets = [graph.candidates(triplet) for triplet in group] if len(group) > 1 else []
    common = set.intersection(*sets) if sets else set[str]()

    def is_other(fact: GraphFact) -> bool:
        return not {name_key(fact.triple.subject), name_key(fact.triple.object)} & common

    return sorted(facts, key=is_other) if common else facts
