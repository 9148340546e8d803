"""RAS: plan, retrieve, structure, repeat, answer (RAS §3, Fig. 1); over given passages: §4.1."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

from common.concurrency import at_once
from inference.engines.contract import RAS_ADAPTER, T2T_ADAPTER, EngineError
from inference.indexes.focused import Extractor
from inference.loops.kind import FirstSubquery, LoopKind, LoopParts, Option, ReadingOptions
from inference.loops.model import GraphReader, search_passages
from inference.loops.trace import Citation, Trace, TraceStep, same_question
from inference.retrieval.passages import Passage, Retriever
from models.facts.grounding import Grounding, split_sentences
from models.facts.triple_selection import select_triples
from models.formats.passages import context_passages
from models.formats.planning import (
    STOPPED,
    History,
    HistoryStep,
    Plan,
    PlanAction,
    cut_plans,
)
from models.formats.records import QuestionRecord
from models.formats.triples import Triple


@dataclass(frozen=True)
class RasSettings:
    """How a RAS loop retrieves.

    top_k: passages a subquery. max_rounds: retrievals a question. max_triples: triples that a
    round keeps, chosen by `select_triples`; 0 keeps g_i whole (eq. 4). planning: False retrieves
    once with the question and answers, the ablation without a planner. first_subquery: "question"
    asks the main question first (eq. 1), "planned" what the first plan asks, which may be a step of
    it. stop_at_repeat: end at a subquery that was asked before. speculate_answer: ask for the
    answer beside each plan after a retrieval. decline: answer nothing where no round found a fact.
    """

    top_k: int = ReadingOptions.top_k
    max_rounds: int = ReadingOptions.max_rounds
    max_triples: int = ReadingOptions.max_triples
    planning: bool = True
    first_subquery: FirstSubquery = ReadingOptions.first_subquery
    stop_at_repeat: bool = True
    speculate_answer: bool = False
    decline: bool = False


def as_history(trace: Trace, triples: bool = True) -> History:
    """What the model is shown of the steps so far; without `triples` their texts alone."""
    steps = (
        HistoryStep(step.subquery, tuple(step.triples) if triples else (), tuple(step.texts))
        for step in trace.steps
    )
    return History(trace.question, tuple(steps))


class RasLoop:
    """The dynamic loop over a corpus."""

    def __init__(
        self,
        reader: GraphReader,
        retriever: Retriever,
        extractor: Extractor,
        settings: RasSettings,
    ) -> None:
        self.reader = reader
        self.retriever = retriever
        self.extractor = extractor
        self.settings = settings

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Plan and retrieve until the planner has enough, then answer.

        What a plan asks at once is searched at once. The loop ends at [SUFFICIENT], be it behind
        subqueries that then all found a fact, at the last round, at a plan that cannot be read, or
        with `stop_at_repeat` at a subquery that was asked before.
        """
        trace = trace or Trace(record.question)
        plans = await self._first_plans(trace)
        early: Trace | None = None
        while subqueries := [plan.subquery for plan in plans if plan.subquery]:
            found = await self._retrieve_all(subqueries, trace)
            if len(plans) > len(subqueries) and all(step.triples for step in found):
                early = None
                break
            plans, early = await self._next_plans(trace)
        note_cut(trace)
        if self._declines(trace):
            trace.notes.append("declined: no passage that was found tells what was asked")
        elif early is not None:
            trace.notes += early.notes
            trace.answer = early.answer
        else:
            history = replace(as_history(trace), no_retrieval=not trace.steps)
            trace.answer = await self.reader.answer(history, trace)
        return trace

    def _declines(self, trace: Trace) -> bool:
        return self.settings.decline and bool(trace.steps) and not trace.graph

    async def _first_plans(self, trace: Trace) -> list[Plan]:
        question = [Plan(PlanAction.SUBQ, trace.question)]
        if not self.settings.planning:
            return question
        plans = await self.reader.plans(History(trace.question), trace)
        if plans and plans[0].action is PlanAction.NO_RETRIEVAL:
            return []
        is_planned = plans and self.settings.first_subquery == "planned"
        return self._within_rounds(plans, trace) if is_planned and plans[0].subquery else question

    async def _next_plans(self, trace: Trace) -> tuple[list[Plan], Trace | None]:
        """Return what is asked next, nothing at the end, and what was answered beside the plan."""
        if not self.settings.planning:
            return [], None
        if len(trace.steps) >= self.settings.max_rounds:
            trace.notes.append(f"{STOPPED} after {len(trace.steps)} rounds")
            return [], None
        plans, early = await self._plan(trace)
        if self.settings.stop_at_repeat:
            plans = _up_to_repeated(plans, trace)
        return self._within_rounds(plans, trace), early

    def _within_rounds(self, plans: list[Plan], trace: Trace) -> list[Plan]:
        """Return the plans that there are rounds left for."""
        return cut_plans(plans, self.settings.max_rounds - len(trace.steps))

    async def _plan(self, trace: Trace) -> tuple[list[Plan], Trace | None]:
        """Return the plans and, where it is asked for beside them, a trace of the answer alone."""
        history = as_history(trace)
        # Nobody hears of an answer that may be dropped.
        is_followed = trace.listener is not None
        if not self.settings.speculate_answer or is_followed or self._declines(trace):
            return await self.reader.plans(history, trace), None
        early = Trace(trace.question, bill=trace.bill, evidence_only=trace.evidence_only)
        plans, answer = await asyncio.gather(
            self.reader.plans(history, trace),
            self.reader.answer(history, early),
            return_exceptions=True,
        )
        if isinstance(plans, BaseException):
            raise plans
        if isinstance(answer, EngineError):
            # Where the loop ends here it is asked for again; else nobody needs it.
            return plans, None
        if isinstance(answer, BaseException):
            raise answer
        early.answer = answer
        return plans, early

    async def _retrieve_all(self, subqueries: Sequence[str], trace: Trace) -> list[TraceStep]:
        """Return a step a subquery, all at once, and add them to the trace.

        Raises the first failure once all have ended: the trace has what the others found and cost.
        """
        return await at_once((self._retrieve(asked, trace) for asked in subqueries), trace.steps)

    async def _retrieve(self, subquery: str, trace: Trace) -> TraceStep:
        """Passages for a subquery (eq. 3) and their triples (eq. 4)."""
        [passages] = await search_passages(self.retriever, [subquery], self.settings.top_k, trace)
        return await extract_step(
            subquery, passages, trace, self.extractor, self.settings.max_triples
        )


def _up_to_repeated(plans: list[Plan], trace: Trace) -> list[Plan]:
    """Return the plans before one whose subquery the trace has asked, which the trace notes."""
    for place, plan in enumerate(plans):
        if trace.has_asked(plan.subquery):
            happened = "left out" if place else f"{STOPPED} at"
            trace.notes.append(f"{happened} a repeated subquery: {plan.subquery!r}")
            return plans[:place]
    return plans


async def extract_step(
    subquery: str,
    passages: list[Passage],
    trace: Trace,
    extractor: Extractor,
    max_triples: int,
) -> TraceStep:
    """The step that passages give: the closest `max_triples` of the triples new to the trace.

    max_triples: 0 for all triples of the passages, as they come, also where the trace has them.
    """
    with trace.stage("extract"):
        whole = same_question(subquery, trace.question)
        found = await extractor.extract(passages, trace.bill, subquery, whole=whole)
    trace.cut_passages.update(passage.id for passage in extractor.cut(passages, subquery, whole))
    triples = [triple for triples in found for triple in triples]
    kept = list(dict.fromkeys(triples))
    if max_triples:
        known = [triple for step in trace.steps for triple in step.triples]
        kept = select_triples(subquery, trace.question, triples, max_triples, known)
    return TraceStep(subquery, passages, kept, citations=cite(kept, passages, found, subquery))


def note_cut(trace: Trace) -> None:
    """Add to the notes how many passages were too long to be read whole, where any was."""
    if count := len(trace.cut_passages):
        were = "passage was" if count == 1 else "passages were"
        trace.notes.append(f"{count} {were} cut to what the reader reads")


def cite(
    triples: Sequence[Triple],
    passages: Sequence[Passage],
    found: Sequence[Sequence[Triple]],
    subquery: str = "",
) -> list[Citation | None]:
    """Return the sentence that states each triple, of the first passage that gave it.

    found: the triples of each passage; subquery: what was asked. None where no sentence names
    what the triple is about.
    """
    giver: dict[Triple, int] = {}
    for place, own in enumerate(found):
        for triple in own:
            giver.setdefault(triple, place)
    grounds = {
        place: Grounding(passages[place].title, split_sentences(passages[place].text))
        for place in {giver[triple] for triple in triples}
    }
    cited: list[Citation | None] = []
    for triple in triples:
        passage = passages[giver[triple]]
        sentence = grounds[giver[triple]].sentence_of(triple, asked=subquery)
        cited.append(Citation(passage.id, passage.title, sentence) if sentence else None)
    return cited


class StaticRasLoop:
    """A fixed number of rounds over the question's own context, then the answer (§4.1, F.2)."""

    def __init__(
        self, reader: GraphReader, extractor: Extractor, max_triples: int = 60, rounds: int = 1
    ) -> None:
        """rounds: the context's passages are shared out among so many, in their order."""
        self.reader = reader
        self.extractor = extractor
        self.max_triples = max_triples
        self.rounds = rounds

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Structure the record's context and answer. Raises ValueError when it has none."""
        passages = context_passages(record)
        if not passages:
            raise ValueError(f"question {record.id}: ras_static needs passages in 'context'")
        trace = trace or Trace(record.question)
        for part in _shared_out(passages, self.rounds):
            step = await extract_step(
                record.question, part, trace, self.extractor, self.max_triples
            )
            trace.steps.append(step)
        note_cut(trace)
        trace.answer = await self.reader.answer(as_history(trace), trace)
        return trace


def _shared_out(passages: Sequence[Passage], parts: int) -> list[list[Passage]]:
    """Return the passages in so many runs of about the same length; none is empty."""
    ends = [len(passages) * part // parts for part in range(parts + 1)]
    return [list(passages[a:b]) for a, b in pairwise(ends) if a < b]


def open_ras(parts: LoopParts[ReadingOptions]) -> RasLoop:
    """Open the dynamic loop, or its ablation without a planner."""
    options = parts.options
    settings = RasSettings(
        top_k=options.top_k,
        max_rounds=options.max_rounds,
        max_triples=options.max_triples,
        planning=options.loop == "ras",
        first_subquery=options.first_subquery,
        stop_at_repeat=options.stop_at_repeat,
        speculate_answer=options.speculate_answer,
        decline=options.decline,
    )
    return RasLoop(parts.reader, parts.retriever(), parts.extractor, settings)


@dataclass(frozen=True)
class StaticRasOptions(ReadingOptions):
    """Options of RAS over given passages."""

    loop: str = "ras_static"
    max_triples: int = 60
    static_rounds: Annotated[
        int, Option("ras_static: rounds that the given passages are shared out among")
    ] = 1


def open_static(parts: LoopParts[StaticRasOptions]) -> StaticRasLoop:
    """Open the loop over given passages."""
    options = parts.options
    return StaticRasLoop(parts.reader, parts.extractor, options.max_triples, options.static_rounds)


_BOTH = (RAS_ADAPTER, T2T_ADAPTER)
# Reading every passage whole, g_i whole, no rule beside the model (eq. 4, App. D and F).
_READING = {
    "extraction": "all",
    "max_triples": 0,
    "derive_comparisons": False,
    "graph_encode": True,
    "decline": False,
    "prompts": "paper",
    "max_answer_tokens": 100,
}
# 2WikiMultihopQA is searched by BM25 (§4.1), which knows no titles.
_SEARCH = {"retriever": "bm25", "title_weight": 1, "top_k": 5}
_PLANNING = {
    "first_subquery": "question",
    "stop_at_repeat": False,
    "plan_ahead": False,
    "max_rounds": 5,
}
RAS = LoopKind("ras", ReadingOptions, open_ras, _BOTH, paper={**_READING, **_SEARCH, **_PLANNING})
RAS_NO_PLANNING = LoopKind(
    "ras_no_planning", ReadingOptions, open_ras, _BOTH, paper={**_READING, **_SEARCH}
)
RAS_STATIC = LoopKind(
    "ras_static",
    StaticRasOptions,
    open_static,
    _BOTH,
    searches_corpus=False,
    paper={**_READING, "static_rounds": 5},
)
