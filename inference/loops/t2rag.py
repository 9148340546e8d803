"""T²RAG: a question's triplets, resolved round by round over propositions (§4.3, Algorithm 1)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from inference.engines.contract import Engine
from inference.indexes.propositions.index import (
    Found,
    PassageSearch,
    PropositionIndex,
    PropositionSearch,
    Search,
    open_index,
)
from inference.indexes.propositions.parts import PropositionIndexError
from inference.loops.kind import Helper, LoopKind, LoopOptions, LoopParts, Option
from inference.loops.model import GraphReader, chat_request, passages_prompt, search, write_answer
from inference.loops.t2rag_steps import (
    CLUE_PROMPTS,
    FUZZY,
    OWN_PROMPTS,
    RESOLVED,
    SEARCHABLE,
    CluePrompts,
    Decomposer,
    HelperResolver,
    OpenQuestion,
    PromptedResolver,
    Resolver,
    in_state,
    settle,
)
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.corpus import passages_by_id
from inference.retrieval.passages import Passage
from models.formats.passages import passage_key
from models.formats.planning import History, HistoryStep
from models.formats.query_triplets import (
    QueryTriplet,
    format_query_triplet,
    format_query_triplets,
)
from models.formats.records import QuestionRecord
from models.formats.triples import Triple

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class T2RagSettings:
    """Settings of T²RAG's retrieval and of its end.

    top_k: distinct passages a round (k). max_rounds: rounds a question (N); the paper's 5 and 3.
    max_triplets: of a decomposition that runs on, the first so many are kept. prompts: of the steps
    that a backbone writes.
    """

    top_k: int = 5
    max_rounds: int = 3
    max_triplets: int = 20
    max_answer_tokens: int = 100
    prompts: CluePrompts = OWN_PROMPTS


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

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Algorithm 1. A question that gives no triplet is answered over the passages behind what
        its own embedding finds.
        """
        trace = trace or Trace(record.question)
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
        found = await search(trace, self.search.find, queries, self.settings.top_k)
        asked = format_query_triplets(fresh).replace("\n", "; ") or trace.question
        trace.steps.append(TraceStep(asked, found.passages, propositions=found.facts))
        return found

    async def _answer_from(self, triplets: list[QueryTriplet], trace: Trace) -> str:
        """Step 2.4: from what is resolved and, of what is left open, could be searched."""
        left = in_state(triplets, SEARCHABLE, FUZZY)
        if left:
            trace.notes.append(f"{len(left)} of {len(triplets)} triplets unresolved")
        if self.reader is not None:
            return await self.reader.answer(_as_history(triplets, trace), trace)
        clues = in_state(triplets, RESOLVED, SEARCHABLE)
        return await self._generate(self.settings.prompts.answer(trace.question, clues), trace)

    async def _generate(self, prompt: str, trace: Trace) -> str:
        request = chat_request(prompt, self.settings.max_answer_tokens)
        return await write_answer(self.engine, request, trace)


def _as_history(triplets: list[QueryTriplet], trace: Trace) -> History:
    """Return the rounds as the answerer was trained to read them, each with what it resolved; facts
    that the decomposition gave come first, what became searchable in the last round comes last.
    """
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


@dataclass(frozen=True)
class T2RagOptions(LoopOptions):
    """Options of T²RAG."""

    loop: str = "t2rag"
    top_k: int = T2RagSettings.top_k
    max_rounds: int = T2RagSettings.max_rounds
    propositions: Annotated[Path | None, Option("index of build_propositions.py", "DIR")] = None
    granularity: Annotated[
        Literal["proposition", "passage"],
        Option("what is searched; passages, by --retriever, are an ablation"),
    ] = "proposition"
    without_passages: Annotated[bool, Option("resolve from propositions alone, an ablation")] = (
        False
    )
    decomposer: Annotated[Path | None, Helper("decompose")] = None
    resolver: Annotated[Path | None, Helper("resolve")] = None


def check_t2rag(options: T2RagOptions) -> None:
    """Raise PropositionIndexError for options that leave nothing to search or resolve from."""
    if options.granularity == "proposition":
        _propositions(options)
    elif options.without_passages:
        raise PropositionIndexError(
            "--without-passages leaves nothing to resolve from with --granularity passage: "
            "give one of the two"
        )


def _propositions(options: T2RagOptions) -> Path:
    if options.propositions is None:
        raise PropositionIndexError(
            "--loop t2rag searches propositions: name their index with --propositions, after "
            "inference/build_propositions.py has made it"
        )
    return options.propositions


def open_t2rag(parts: LoopParts[T2RagOptions]) -> T2RagLoop:
    """Open T²RAG over propositions, or over passages for its ablation.

    Raises PropositionIndexError, IndexMismatchError, EmptyCorpusError.
    """
    options, engine, helpers = parts.options, parts.engine, parts.helpers
    prompts = CLUE_PROMPTS[options.prompts]
    settings = T2RagSettings(
        options.top_k,
        options.max_rounds,
        max_answer_tokens=options.max_answer_tokens,
        prompts=prompts,
    )
    resolver: Resolver
    if "resolve" in helpers:
        resolver = HelperResolver(engine, helpers["resolve"], not options.without_passages)
    else:
        resolver = PromptedResolver(engine, not options.without_passages, prompts)
    decomposer = Decomposer(engine, helpers.get("decompose"), prompts)
    search = _open_search(parts)
    return T2RagLoop(engine, decomposer, resolver, search, settings, parts.ras_reader)


def _open_search(parts: LoopParts[T2RagOptions]) -> Search:
    options = parts.options
    if options.granularity == "passage":
        return PassageSearch(parts.retriever())
    folder = _propositions(options)
    index = open_index(folder, parts.encoder(), options.index)
    passages = passages_by_id(parts.corpus)
    _check_corpus(index, passages, folder)
    return PropositionSearch(index, passages)


def _check_corpus(index: PropositionIndex, passages: Mapping[str, Passage], folder: Path) -> None:
    """Refuse a corpus that lacks a passage of the index or has another text for it."""
    for name, key in index.documents.items():
        if name not in passages or passage_key(passages[name]) != key:
            raise PropositionIndexError(
                f"{folder} holds document '{name}', which the corpus does not hold with that title "
                "and text: name the corpus that it was built from"
            )
    missing = len(passages) - len(index.documents)
    if missing:
        logger.warning(
            "%d of %d passages are not in %s and will not be found; add them with "
            "inference/build_propositions.py",
            missing,
            len(passages),
            folder,
        )


T2RAG = LoopKind(
    "t2rag",
    T2RagOptions,
    open_t2rag,
    index="propositions",
    heading="t2rag",
    check=check_t2rag,
    # §5.2 and App. F: one prompted model does every step.
    paper={
        "top_k": 5,
        "max_rounds": 3,
        "decomposer": None,
        "resolver": None,
        "prompts": "paper",
        "granularity": "proposition",
        "without_passages": False,
        "derive_comparisons": False,
    },
)
