"""Trig-Nav: what is missing, as chains of triples over a graph made for the question
(Trig-Nav §3, eq. 1 to 9)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from common.concurrency import at_once
from inference.engines.contract import RAS_ADAPTER, T2T_ADAPTER
from inference.loops.chain_solver import ChainSettings, ChainSolver, SolvedChain, SubQuestion
from inference.loops.graph_evidence import (
    EvidenceGatherer,
    EvidenceSettings,
    KnowledgeUsed,
    QuestionGraph,
)
from inference.loops.kind import Helper, LoopKind, LoopOptions, LoopParts, Option
from inference.loops.model import GraphReader, ModelSteps, chat_request, write_answer
from inference.loops.solving_order import segment_question, segments
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.open_retriever import reciprocal_rank_fusion
from inference.retrieval.passages import Hit, Passage
from models.facts.triple_selection import select_triples
from models.formats.helpers import gap_prompt, parse_gap
from models.formats.planning import History, HistoryStep
from models.formats.prompts import INSUFFICIENT, evidence_answer_prompt, passage_text
from models.formats.records import QuestionRecord
from models.formats.subquestions import (
    JUDGE_INSTRUCTION,
    RECALL_INSTRUCTION,
    SUB_ANSWERS_INSTRUCTION,
    SubAnswer,
    parse_recall,
    parse_subquestions,
    recall_prompt,
    sub_answers_prompt,
    subquestions_prompt,
)
from models.formats.triples import Triple

JUDGE = "judge_gap"
RECALL_TOKENS = 256
JUDGE_TOKENS = 256


@dataclass(frozen=True)
class TrigNavSettings:
    """Settings of Trig-Nav.

    judge: whether a judge says what is missing (§3.2), from a first search; without it (Table 2)
    every question is decomposed.
    decompose: without it (Table 3) the question is one sub-question and read from its passages.
    multi_link: without it (Table 3) a sub-question's triples are not chained, what one finds is
    not put into the others. own_graphs: a graph a sub-question (eq. 1) in place of one a question.
    recall: whether the model is first asked what it knows, for the judge and its search.
    max_recalled: facts of that. max_subquestions: of the judge's. max_known: triples of the first
    search's passages that a trained judge is shown. shows_known: whether the answer is read from
    these too, beside the sub-answers, since what the judge found there is no sub-question (eq. 9
    has the sub-answers alone).
    """

    judge: bool = False
    decompose: bool = True
    multi_link: bool = True
    own_graphs: bool = False
    shows_known: bool = True
    recall: bool = True
    max_recalled: int = 5
    max_subquestions: int = 5
    max_known: int = 12
    max_answer_tokens: int = 100


class TrigNavLoop:
    """Answers over a corpus; every step by a trained helper where `steps` has one.

    With a `reader` (a RAS component) the answer is read from the solved triples as a graph.
    """

    def __init__(
        self,
        steps: ModelSteps,
        evidence: EvidenceGatherer,
        settings: TrigNavSettings,
        reader: GraphReader | None = None,
    ) -> None:
        self.steps = steps
        self.evidence = evidence
        self.settings = settings
        self.reader = reader
        solving = ChainSettings(
            settings.max_answer_tokens, reader is not None, settings.decompose, settings.multi_link
        )
        self.solver = ChainSolver(steps, evidence, solving)

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Solve what is missing as sub-questions at once, answer from what was found.

        Declines without a call where no sub-question was solved.
        """
        trace, shared = trace or Trace(record.question), QuestionGraph()
        missing, passages = [SubQuestion(record.question)], list[Passage]()
        if self.settings.judge and self.settings.decompose:
            passages, recalled = await self._look_up(trace)
            missing = await self._judge(passages, recalled, trace)
            if not missing:
                trace.answer = await self._answer_directly(passages, trace)
                return trace
        graphs = [QuestionGraph() if self.settings.own_graphs else shared for _ in missing]
        chains = await at_once(
            self.solver.solve(s, g, trace) for s, g in zip(missing, graphs, strict=True)
        )
        trace.answer = await self._answer_from(chains, passages, trace)
        return trace

    async def _look_up(self, trace: Trace) -> tuple[list[Passage], list[Triple]]:
        """Return passages for the question and what the model knows, and that (§3.2's R, X)."""
        recalled: list[Triple] = []
        if self.settings.recall:
            text = await self.steps.ask(
                "recall", RECALL_INSTRUCTION, recall_prompt(trace.question), trace, RECALL_TOKENS
            )
            recalled = parse_recall(text)[: self.settings.max_recalled]
        queries = [trace.question, *(f"{t.subject} {t.predicate} {t.object}" for t in recalled)]
        found = await self.evidence.search(queries, trace)
        rankings = [[Hit(passage, 0.0) for passage in own] for own in found]
        fused = reciprocal_rank_fusion(rankings, self.evidence.settings.top_k)
        passages = [hit.passage for hit in fused]
        trace.steps.append(TraceStep(trace.question, passages))
        return passages, recalled

    async def _judge(
        self, passages: Sequence[Passage], recalled: Sequence[Triple], trace: Trace
    ) -> list[SubQuestion]:
        """Return the sub-questions that are missing; none for enough.

        A judgement that cannot be read counts as the question itself missing.
        """
        missing: list[SubQuestion] | None
        if JUDGE in self.steps.helpers:
            text, missing = await self._judge_by_helper(passages, trace)
        else:
            texts = [passage_text(passage.title, passage.text) for passage in passages]
            prompt = subquestions_prompt(trace.question, recalled, texts)
            text = await self.steps.ask(JUDGE, JUDGE_INSTRUCTION, prompt, trace, JUDGE_TOKENS)
            questions = parse_subquestions(text).missing
            missing = None if questions is None else [SubQuestion(q) for q in questions]
        trace.steps[-1].decision = text
        if missing is None:
            trace.notes.append(f"not a judgement, the whole question is taken: {text!r}")
            return [SubQuestion(trace.question)]
        most = self.settings.max_subquestions
        if len(missing) > most:
            trace.notes.append(f"{len(missing) - most} sub-questions left out")
        return missing[:most]

    async def _judge_by_helper(
        self, passages: Sequence[Passage], trace: Trace
    ) -> tuple[str, list[SubQuestion] | None]:
        """Return a trained judge's text and sub-questions, from the triples of the passages."""
        known = await self._known_triples(passages, self.settings.max_known, trace)
        prompt = gap_prompt(trace.question, known)
        text = await self.steps.ask(JUDGE, "", prompt, trace, JUDGE_TOKENS)
        missing = parse_gap(text).missing
        if missing is None:
            return text, None
        groups = segments(missing)
        return text, [SubQuestion(segment_question(group), tuple(group)) for group in groups]

    async def _known_triples(
        self, passages: Sequence[Passage], most: int, trace: Trace
    ) -> list[Triple]:
        """Return the triples that share most with the question; the first step gets them."""
        found = await self.evidence.triples_of(passages, trace)
        triples = [triple for own in found for triple in own]
        chosen = select_triples(trace.question, trace.question, triples, most)
        trace.steps[0].triples = chosen
        return chosen

    async def _answer_directly(self, passages: Sequence[Passage], trace: Trace) -> str:
        """Return the answer where nothing is missing: over the passages, as in direct retrieval."""
        if self.reader is not None:
            known = await self._known_triples(passages, self.settings.max_known, trace)
            step = HistoryStep(trace.question, tuple(known))
            return await self.reader.answer(History(trace.question, (step,)), trace)
        evidence = "\n".join(passage_text(passage.title, passage.text) for passage in passages)
        prompt = evidence_answer_prompt(trace.question, evidence)
        return await self._write_answer(prompt, trace)

    async def _answer_from(
        self, chains: Sequence[SolvedChain], passages: Sequence[Passage], trace: Trace
    ) -> str:
        """Return the answer from the sub-answers (eq. 9) and from what was judged as known.

        passages: of the first search, in which the judge found that.
        """
        answers = [chain.answer for chain in chains if chain.answer is not None]
        known: list[Triple] = []
        if answers and passages and self.settings.shows_known:
            known = await self._known_triples(passages, self.settings.max_known, trace)
        for chain in chains:
            trace.steps += chain.steps
            trace.notes += chain.notes
        if not answers:
            trace.notes.append("no sub-question was solved")
            return INSUFFICIENT
        if self.reader is not None:
            steps = [HistoryStep(trace.question, tuple(known))] if known else []
            steps += [HistoryStep(answer.question, _as_facts(answer)) for answer in answers]
            return await self.reader.answer(History(trace.question, tuple(steps)), trace)
        prompt = sub_answers_prompt(trace.question, answers, known)
        return await self._write_answer(f"{SUB_ANSWERS_INSTRUCTION}\n\n{prompt}", trace)

    async def _write_answer(self, prompt: str, trace: Trace) -> str:
        request = chat_request(prompt, self.settings.max_answer_tokens)
        return await write_answer(self.steps.engine, request, trace)


def _as_facts(answer: SubAnswer) -> tuple[Triple, ...]:
    return answer.facts or (Triple(answer.question, "answer", answer.text),)


@dataclass(frozen=True)
class TrigNavOptions(LoopOptions):
    """Options of Trig-Nav."""

    loop: str = "trig_nav"
    top_k: int = EvidenceSettings.top_k
    judge: Annotated[
        bool, Option("judge first what is missing; without, every question is decomposed")
    ] = TrigNavSettings.judge
    recall: Annotated[bool, Option("ask the model what it knows before a judge is asked")] = (
        TrigNavSettings.recall
    )
    decompose: Annotated[
        bool, Option("into sub-questions and triples; without, an ablation of Table 3")
    ] = TrigNavSettings.decompose
    multi_link: Annotated[
        bool, Option("put what a triple finds into the next; without, an ablation of Table 3")
    ] = TrigNavSettings.multi_link
    own_graphs: Annotated[
        bool, Option("a graph for each sub-question, as in the paper, in place of the question's")
    ] = TrigNavSettings.own_graphs
    shows_known: Annotated[
        bool, Option("answer from the first passages' triples too, not from sub-answers alone")
    ] = TrigNavSettings.shows_known
    knowledge: Annotated[
        KnowledgeUsed, Option("what triples are solved from, graph and text or one of them")
    ] = EvidenceSettings.knowledge
    gap_judge: Annotated[Path | None, Helper("judge_gap")] = None
    decomposer: Annotated[Path | None, Helper("decompose")] = None
    resolver: Annotated[Path | None, Helper("resolve")] = None


def open_trig_nav(parts: LoopParts[TrigNavOptions]) -> TrigNavLoop:
    """Open Trig-Nav over a corpus."""
    options = parts.options
    evidence = EvidenceSettings(options.top_k, options.max_triples, options.knowledge)
    retriever, encoder = parts.retriever(), parts.encoder()
    gatherer = EvidenceGatherer(retriever, parts.extractor, encoder, evidence)
    settings = TrigNavSettings(
        judge=options.judge,
        decompose=options.decompose,
        multi_link=options.multi_link,
        own_graphs=options.own_graphs,
        shows_known=options.shows_known,
        recall=options.recall,
        max_answer_tokens=options.max_answer_tokens,
    )
    return TrigNavLoop(
        ModelSteps(parts.engine, parts.helpers), gatherer, settings, parts.ras_reader
    )


TRIG_NAV = LoopKind(
    "trig_nav",
    TrigNavOptions,
    open_trig_nav,
    (RAS_ADAPTER, T2T_ADAPTER),
    heading="trig_nav",
    # §3 and §4.1. The paper prints no prompt, and the number of texts only for its Fig. 4 and 5.
    paper={
        "retriever": "bm25",
        "title_weight": 1,
        "max_triples": 0,
        "judge": True,
        "recall": True,
        "decompose": True,
        "multi_link": True,
        "own_graphs": True,
        "shows_known": False,
        "knowledge": "both",
        "gap_judge": None,
        "decomposer": None,
        "resolver": None,
        "derive_comparisons": False,
    },
)
