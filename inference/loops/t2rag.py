"""T²RAG: a question's triplets, resolved round by round over propositions (§4.3, Algorithm 1)."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from inference.engines.contract import Engine
from inference.indexes.propositions.index import PropositionIndex, open_index
from inference.indexes.propositions.parts import PropositionIndexError
from inference.indexes.propositions.search import Found, PassageSearch, PropositionSearch, Search
from inference.loops.kind import Helper, LoopKind, LoopOptions, LoopParts, Option
from inference.loops.model import GraphReader, chat_request, passages_prompt, search, write
from inference.loops.t2rag_steps import (
    Decomposer,
    HelperResolver,
    OpenQuestion,
    PromptedResolver,
    Resolver,
)
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Passage
from models.formats.clues import prompted_answer
from models.formats.conditions import relation_words
from models.formats.passages import passage_key
from models.formats.planning import History, HistoryStep
from models.formats.query_triplets import (
    ANONYMOUS,
    QueryTriplet,
    TripletState,
    bind,
    filled_in,
    format_query_triplet,
    format_query_triplets,
    is_placeholder,
)
from models.formats.records import QuestionRecord
from models.formats.triples import Triple

logger = logging.getLogger(__name__)
_NO_VALUE = re.compile(
    r"\W*(?:unknown|unspecified|undisclosed|none|nothing|null|nil|n/?a|tbd|unresolved"
    r"|not (?:\w+ )?(?:specified|mentioned|stated|given|known|available|provided|found)(?: .*)?"
    r"|no (?:information|data|mention)(?: .*)?)\W*",
    re.IGNORECASE,
)
_SMALL_WORDS = frozenset(
    re.findall(r"\w+", "a an and at by did do for from has have in is it of on or the to was")
)
RESOLVED, SEARCHABLE, FUZZY = (
    TripletState.RESOLVED,
    TripletState.SEARCHABLE,
    TripletState.FUZZY,
)


@dataclass(frozen=True)
class Settled:
    """Triplets after a round.

    notes: of placeholders that were found to be two things, and of triplets that are resolved by
    what was found for others alone, so that nothing was read that states them.
    """

    triplets: list[QueryTriplet]
    notes: list[str] = field(default_factory=list)


def in_state(triplets: Iterable[QueryTriplet], *states: TripletState) -> list[QueryTriplet]:
    """Return the triplets in one of these states, in their order."""
    return [triplet for triplet in triplets if triplet.state in states]


def settle(triplets: Sequence[QueryTriplet], written: Iterable[QueryTriplet]) -> Settled:
    """Return what a model wrote put in the place of the open triplets that it fills.

    What is found for `?name` is put into every triplet that holds it. A triplet that the model did
    not write about stays as it was; what fills no open triplet is passed over, and so is a value
    that says that there is none ("unknown"). Where the model found two values for one `?name`, the
    two triplets keep a value each, and the others take the first.
    """
    filled = _assigned(triplets, list(written))
    values: dict[str, str] = {}
    notes = []
    for place, result in sorted(filled.items()):
        for name, value in zip(triplets[place].fields, result.fields, strict=True):
            if name in (value, ANONYMOUS):
                continue
            first = values.setdefault(name.strip(), value)
            if first.casefold() != value.casefold():
                notes.append(f"{name} was found to be {first!r} and {value!r}: two things")
    after = bind((filled.get(place, triplet) for place, triplet in enumerate(triplets)), values)
    notes += [
        f"not read but inferred: {format_query_triplet(result)}"
        for place, result in enumerate(after)
        if place not in filled and result != triplets[place] and not result.placeholders
    ]
    return Settled(list(dict.fromkeys(after)), notes)


def _assigned(
    triplets: Sequence[QueryTriplet], written: Sequence[QueryTriplet]
) -> dict[int, QueryTriplet]:
    """For the places of open triplets, what they become; each clue fills one triplet at most.

    The closest predicates are matched first. A predicate in wholly other words is taken where the
    triplet's subject or object is known and nothing else is left for it.
    """
    pairs = []
    for number, clue in enumerate(written):
        for place, triplet in enumerate(triplets):
            result = filled_in(triplet, clue) if triplet.placeholders else None
            if result is None or not _says_something(triplet, result):
                continue
            closeness = _closeness(triplet.predicate, clue.predicate)
            if closeness or not _is_all_open(triplet):
                left_open = len(result.placeholders)
                pairs.append((-closeness, left_open, number, place, result))
    taken: dict[int, QueryTriplet] = {}
    used: set[int] = set()
    for _, _, number, place, result in sorted(pairs, key=lambda pair: pair[:4]):
        if place not in taken and number not in used:
            taken[place] = result
            used.add(number)
    return taken


def _is_all_open(triplet: QueryTriplet) -> bool:
    return is_placeholder(triplet.subject) and is_placeholder(triplet.object)


def _closeness(asked: str, written: str) -> int:
    """2: the same relation, or any is asked for; 1: a word in common; 0: other words."""
    one, other = relation_words(asked), relation_words(written)
    if is_placeholder(asked) or one == other:
        return 2
    return int(bool((set(one.split()) & set(other.split())) - _SMALL_WORDS))


def _says_something(triplet: QueryTriplet, result: QueryTriplet) -> bool:
    pairs = zip(triplet.fields, result.fields, strict=True)
    return not any(_NO_VALUE.fullmatch(value) for field, value in pairs if field != value)


@dataclass(frozen=True)
class T2RagSettings:
    """Settings of T²RAG's retrieval and of its end.

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
        found = await search(trace, self.search.find, queries, self.settings.top_k)
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
        return await write(self.engine, request, "answer", trace)


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


def open_t2rag(parts: LoopParts[T2RagOptions]) -> T2RagLoop:
    """Open T²RAG over propositions, or over passages for its ablation.

    Raises PropositionIndexError, IndexMismatchError, EmptyCorpusError.
    """
    options, engine, helpers = parts.options, parts.engine, parts.helpers
    settings = T2RagSettings(
        options.top_k, options.max_rounds, max_answer_tokens=options.max_answer_tokens
    )
    resolver: Resolver
    if "resolve" in helpers:
        resolver = HelperResolver(engine, helpers["resolve"], not options.without_passages)
    else:
        resolver = PromptedResolver(engine, not options.without_passages)
    decomposer = Decomposer(engine, helpers.get("decompose"))
    search = _open_search(parts)
    return T2RagLoop(engine, decomposer, resolver, search, settings, parts.ras_reader)


def _open_search(parts: LoopParts[T2RagOptions]) -> Search:
    options = parts.options
    if options.granularity == "passage":
        if options.without_passages:
            raise PropositionIndexError(
                "--without-passages leaves nothing to resolve from with --granularity passage: "
                "give one of the two"
            )
        return PassageSearch(parts.retriever())
    if options.propositions is None:
        raise PropositionIndexError(
            "--loop t2rag searches propositions: name their index with --propositions, after "
            "inference/build_propositions.py has made it"
        )
    index = open_index(options.propositions, parts.encoder())
    passages = {passage.id: passage for passage in parts.corpus}
    _check_corpus(index, passages, options.propositions)
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


T2RAG = LoopKind("t2rag", T2RagOptions, open_t2rag, index="propositions", heading="t2rag")
