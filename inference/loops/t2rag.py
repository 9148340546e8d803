"""T²RAG: a question's triplets, resolved round by round over propositions (§4.3, Algorithm 1).

The paper's ablations are settings: `max_rounds=1` is the single round and a resolver that shows no
passages is "w/o chunk" (Table 5 of §5.3); `PassageSearch` in place of `PropositionSearch` is
"Chunk-based Slot-Filling" (App. B.5).
"""

import asyncio
from dataclasses import dataclass

from inference.engines.contract import Engine
from inference.loops.graph_reader import GraphReader
from inference.loops.open_triplets import in_state, settle
from inference.loops.passage_steps import chat_request, passages_prompt
from inference.loops.t2rag_steps import Decomposer, OpenQuestion, Resolver
from inference.loops.trace import Trace, TraceStep
from inference.propositions.search import Found, Search
from models.formats.clue_prompts import prompted_answer
from models.formats.history import History, HistoryStep
from models.formats.query_triplets import (
    QueryTriplet,
    TripletState,
    format_query_triplet,
    format_query_triplets,
)
from models.formats.records import QuestionRecord
from models.formats.triples import Triple

RESOLVED, SEARCHABLE, FUZZY = (
    TripletState.RESOLVED,
    TripletState.SEARCHABLE,
    TripletState.FUZZY,
)


@dataclass(frozen=True)
class T2RagSettings:
    """How a T²RAG loop retrieves and stops.

    top_k: distinct passages a round (k). max_rounds: rounds a question (N); the paper's 5 and 3.
    max_triplets: of a decomposition that runs on, the first so many are kept.
    """

    top_k: int = 5
    max_rounds: int = 3
    max_triplets: int = 20
    max_answer_tokens: int = 100


class T2RagLoop:
    """Decomposes once, then retrieves and resolves until every triplet is resolved.

    With a `reader` (a RAS component) the resolved triplets are read as a graph's; without one the
    engine's backbone answers from them as clues.
    """

    def __init__(
        self,
        engine: Engine,
        decomposer: Decomposer,
        resolver: Resolver,
        search: Search,
        settings: T2RagSettings,
        reader: GraphReader | None = None,
    ) -> None:
        self.engine = engine
        self.decomposer = decomposer
        self.resolver = resolver
        self.search = search
        self.settings = settings
        self.reader = reader

    async def answer(self, record: QuestionRecord) -> Trace:
        """Algorithm 1. A question that gives no triplet is answered over the passages behind what
        its own embedding finds.
        """
        trace = Trace(record.question)
        triplets = await self._decompose(trace)
        if not triplets:
            trace.notes.append("no triplet to resolve: answered over passages")
            found = await self._retrieve([], trace)
            trace.answer = await self._generate(
                passages_prompt(record.question, found.passages), trace
            )
            return trace
        triplets = await self._resolve_all(triplets, trace)
        trace.answer = await self._answer_from(triplets, trace)
        return trace

    async def _decompose(self, trace: Trace) -> list[QueryTriplet]:
        triplets = await self.decomposer.decompose(trace.question, trace)
        most = self.settings.max_triplets
        if len(triplets) > most:
            trace.notes.append(f"decomposition: the first {most} of {len(triplets)} triplets kept")
        return triplets[:most]

    async def _resolve_all(self, triplets: list[QueryTriplet], trace: Trace) -> list[QueryTriplet]:
        """Rounds until nothing is open, nothing new can be searched, or the most rounds are over.

        A round searches with the triplets that became searchable in the one before; where there are
        none but fuzzy ones are left, with the question. A round that would repeat the last one's
        search and clues is not made: it has the same outcome.
        """
        fresh = in_state(triplets, SEARCHABLE)
        unchanged = False
        for _ in range(self.settings.max_rounds):
            is_open = in_state(triplets, SEARCHABLE, FUZZY)
            if not is_open:
                break
            if unchanged or not (fresh or in_state(triplets, FUZZY)):
                trace.notes.append("stopped early: no newly searchable triplet")
                break
            before = triplets
            triplets = await self._round(before, fresh, trace)
            unchanged = triplets == before and not fresh
            fresh = [t for t in in_state(triplets, SEARCHABLE) if t not in before]
        return triplets

    async def _round(
        self, triplets: list[QueryTriplet], fresh: list[QueryTriplet], trace: Trace
    ) -> list[QueryTriplet]:
        """Steps 2.1 to 2.3: retrieve, resolve, update."""
        found = await self._retrieve(fresh, trace)
        state = OpenQuestion(trace.question, triplets, found)
        settled = settle(triplets, await self.resolver.resolve(state, trace))
        trace.notes += settled.notes
        known = in_state(triplets, RESOLVED)
        new = [t for t in in_state(settled.triplets, RESOLVED) if t not in known]
        trace.steps[-1].triples = [Triple(*triplet.fields) for triplet in new]
        return settled.triplets

    async def _retrieve(self, fresh: list[QueryTriplet], trace: Trace) -> Found:
        """Adaptive retrieval with the searchable triplets, or with the question for want of any."""
        queries = [triplet.proposition for triplet in fresh] or [trace.question]
        with trace.bill.stage("retrieve"):
            found = await asyncio.to_thread(self.search.find, queries, self.settings.top_k)
        asked = format_query_triplets(fresh).replace("\n", "; ") or trace.question
        trace.steps.append(TraceStep(asked, found.passages, propositions=found.facts))
        return found

    async def _answer_from(self, triplets: list[QueryTriplet], trace: Trace) -> str:
        """Step 2.4: from what is resolved; where something is left open, from what could be
        searched too."""
        left = in_state(triplets, SEARCHABLE, FUZZY)
        if left:
            trace.notes.append(f"{len(left)} of {len(triplets)} triplets unresolved")
        if self.reader is not None:
            return await self.reader.answer(_as_history(triplets, trace), trace)
        clues = in_state(triplets, RESOLVED, SEARCHABLE)
        return await self._generate(prompted_answer(trace.question, clues), trace)

    async def _generate(self, prompt: str, trace: Trace) -> str:
        request = chat_request(prompt, self.settings.max_answer_tokens)
        with trace.bill.stage("answer"):
            [completion] = await self.engine.generate([request])
        trace.bill.charge([completion])
        return completion.text.strip()


def _as_history(triplets: list[QueryTriplet], trace: Trace) -> History:
    """The rounds as the answerer was trained to read them, each with what it resolved; facts that
    the decomposition gave come first, what became searchable in the last round comes last."""
    known = [Triple(*triplet.fields) for triplet in in_state(triplets, RESOLVED)]
    told = {triple for step in trace.steps for triple in step.triples}
    given = tuple(triple for triple in known if triple not in told)
    steps = [HistoryStep(trace.question, given)] if given else []
    steps += [HistoryStep(step.subquery, tuple(step.triples)) for step in trace.steps]
    left = map(format_query_triplet, in_state(triplets, SEARCHABLE))
    steps += [
        HistoryStep(asked) for asked in left if not any(asked in s.subquery for s in trace.steps)
    ]
    return History(trace.question, tuple(steps))
