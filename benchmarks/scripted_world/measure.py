"""One loop over a world's questions with a scripted model, beside its paper's algorithm."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.scripted_world.gold_world import GoldWorld
from benchmarks.scripted_world.loops import Settings, TopicWriters, WorldLoops
from benchmarks.scripted_world.world_model import UNKNOWN, WorldModel
from evaluation.answers import exact_match
from evaluation.significance import bootstrap_interval
from inference.engines.contract import Request
from inference.indexes.hierarchy.graph import TopicGraph
from inference.loops.th_rag import ThRagLoop
from inference.loops.trace import Loop, Trace
from inference.runs.evaluation import run_questions
from models.files.sentence_encoder import SentenceEncoder
from models.formats.prompts import INSUFFICIENT
from models.formats.records import QuestionRecord

SOLVED_AS = ("factual", "associative", "causal")
OUTCOMES = ("right", "declined", "last output spoiled", "wrong")
DECLINED = {"", UNKNOWN.casefold(), INSUFFICIENT.casefold()}
CONCURRENCY = 60
# Whether the newest output for the question that is being answered was spoiled.
_newest_spoiled: ContextVar[list[bool]] = ContextVar("newest_spoiled")


def depth(record: QuestionRecord) -> int:
    """Rounds that a question takes where every search finds what it looks for: the facts in a
    row, those that wait for no other at the same time."""
    facts = len(record.evidences)
    row = {"single": 1, "bridge": facts, "comparison": 1, "bridge_comparison": 2, "intersection": 1}
    return facts // 2 if record.type == "yes_no" else row[record.type]


def ras_calls(trace: Trace, most_rounds: int) -> int:
    """Return RAS §3's: a plan a retrieval, one to end before the rounds do, and the answer."""
    plans = 1 + min(len(trace.steps), most_rounds - 1)
    return plans + 1


def tri_rag_calls(trace: Trace, most_rounds: int) -> int:
    """Return Tri-RAG's Algorithm 2: a plan after each round but the last, and the answer."""
    return min(len(trace.steps), most_rounds - 1) + 1


def t2rag_calls(trace: Trace) -> int:
    """Return T²RAG's Algorithm 1: the decomposition, one resolution a round, the answer."""
    resolved = any("no triplet to resolve" in note for note in trace.notes)
    return 2 + (0 if resolved else len(trace.steps))


def th_rag_calls(trace: Trace, graph: TopicGraph, least_subtopics: int) -> int:
    """TH-RAG's Algorithm 2: topics, the subtopics of each that has a choice, the answer."""
    chosen = [part.split(": ")[0] for part in trace.steps[0].decision.split("; ")]
    sizes = [len(graph.subtopics_of(graph.topics.index(topic))) for topic in chosen]
    return 1 + sum(size > least_subtopics for size in sizes) + 1


def trig_nav_calls(trace: Trace, judge: bool) -> int:
    """Return Trig-Nav §3's: recall and judge, one a sub-question and triple, the answer if
    solved.
    """
    steps = trace.steps[1:] if judge else trace.steps
    if judge and trace.steps[0].decision == "enough":
        return 3
    asked = [step for step in steps if step.decision.split(":")[0] in SOLVED_AS]
    resolved = sum(len(s.subquery.split(" / ")) for s in steps if s not in asked)
    return 2 * judge + len(asked) + resolved + (trace.answer != INSUFFICIENT)


def calls_of(name: str, settings: Settings, graph: TopicGraph | None) -> Callable[[Trace], int]:
    """Return the rule of one loop; `graph` is TH-RAG's."""
    if name == "ras":
        return lambda trace: ras_calls(trace, settings.ras.max_rounds)
    if name == "tri_rag":
        return lambda trace: tri_rag_calls(trace, settings.tri_rag.max_rounds)
    if name == "th_rag":
        assert graph is not None
        return lambda trace: th_rag_calls(trace, graph, settings.th_rag.subtopics[0])
    if name == "trig_nav":
        return lambda trace: trig_nav_calls(trace, settings.trig_nav.judge)
    return t2rag_calls


def rounds_fit(name: str, record: QuestionRecord, trace: Trace) -> bool:
    """Return whether a loop with a perfect model took no more rounds than a question in its reach
    needs.

    T²RAG's are exactly the facts in a row. RAS and Tri-RAG search for the question itself first,
    and then for one missing fact a round. TH-RAG has one round. Trig-Nav solves a chain a triple a
    round, each sub-question asked in a step of its own.
    """
    rounds, facts = len(trace.steps), len(record.evidences)
    if name == "t2rag":
        return rounds == depth(record)
    if name == "th_rag":
        return rounds == 1
    return 1 <= rounds <= 1 + (2 * facts if name == "trig_nav" else facts)


@dataclass(frozen=True)
class Answered:
    """A question, its trace, and how it ended (one of `OUTCOMES`)."""

    record: QuestionRecord
    trace: Trace
    outcome: str
    in_reach: bool

    @property
    def right(self) -> bool:
        """Return whether the answer is an exact match."""
        return self.outcome == "right"


class _Noting:
    """A loop that notes for each question whether the last output was spoiled: such an answer is
    the model's error and not the loop's."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.last: dict[str, bool] = {}

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        newest = [False]
        _newest_spoiled.set(newest)
        trace = await self.loop.answer(record, trace)
        self.last[record.id] = newest[0]
        return trace


class _NotedModel(WorldModel):
    """Tells the question that is being answered whether its newest output was spoiled."""

    def __call__(self, request: Request) -> str:
        before = self.spoiled.total()
        text = super().__call__(request)
        _newest_spoiled.get([False])[0] = self.spoiled.total() > before
        return text


@dataclass(frozen=True)
class Conditions:
    """The world that is asked about, by whom it is known, and how often the model errs."""

    world: GoldWorld
    topics: TopicWriters
    encoder: SentenceEncoder
    questions: Sequence[QuestionRecord]
    error_rate: float = 0.0
    seed: int = 0


async def answer_all(
    name: str, settings: Settings, given: Conditions, reach: Sequence[bool]
) -> tuple[list[Answered], dict[str, Any]]:
    """Index a world and answer its questions; return also what `summarise` cannot see there.

    The same model indexes and answers, so its errors are in the index too. reach: of
    `reach.questions_in_reach`, known before any question is asked.
    """
    model = _NotedModel(given.world, given.error_rate, given.seed)
    loops = WorldLoops(given.world, given.topics, model, given.encoder)
    with tempfile.TemporaryDirectory() as folder:
        loop = await loops.open(name, settings, Path(folder) / "hierarchy")
        indexing = len(loops.engine.requests)
        started = time.perf_counter()
        noting = _Noting(loop)
        traces = await run_questions(noting, given.questions, CONCURRENCY)
        seconds = time.perf_counter() - started
    done = [
        Answered(record, trace, _outcome(record, trace, noting.last), within)
        for record, trace, within in zip(given.questions, traces, reach, strict=True)
    ]
    found: dict[str, Any] = {"indexing_calls": indexing, "seconds": seconds}
    if not given.error_rate:
        rule = calls_of(name, settings, loop.index.graph if isinstance(loop, ThRagLoop) else None)
        calls = [rule(trace) == trace.bill.llm_calls for trace in traces]
        rounds = [rounds_fit(name, item.record, item.trace) for item in done if item.in_reach]
        found |= {"calls_as_algorithm": mean(calls), "rounds_as_algorithm": mean(rounds)}
    return done, found


def _outcome(record: QuestionRecord, trace: Trace, last: dict[str, bool]) -> str:
    if exact_match(trace.answer, record.answers):
        return "right"
    if last.get(record.id):
        return "last output spoiled"
    return "declined" if trace.answer.casefold() in DECLINED else "wrong"


def summarise(done: Sequence[Answered]) -> dict[str, Any]:
    """Return EM with its interval, outcomes, calls and rounds of the answers, by hops too."""
    outcomes = Counter(item.outcome for item in done)
    all_hops = sorted({len(item.record.evidences) for item in done})
    reached = [item.right for item in done if item.in_reach]
    return {
        "n": len(done),
        "em": asdict(bootstrap_interval([float(item.right) for item in done])),
        "in_reach": mean(item.in_reach for item in done),
        "em_in_reach": mean(reached) if reached else None,
        "right_out_of_reach": sum(item.right and not item.in_reach for item in done),
        **{f"{name.replace(' ', '_')}_share": outcomes[name] / len(done) for name in OUTCOMES},
        "exceptions": sum(item.trace.error is not None for item in done),
        "llm_calls": mean(item.trace.bill.llm_calls for item in done),
        "rounds": mean(len(item.trace.steps) for item in done),
        "by_hops": {str(hops): _of_hops(done, hops) for hops in all_hops},
    }


def _of_hops(done: Sequence[Answered], hops: int) -> dict[str, Any]:
    mine = [item for item in done if len(item.record.evidences) == hops]
    return {
        "n": len(mine),
        "em": mean(item.right for item in mine),
        "in_reach": mean(item.in_reach for item in mine),
        "llm_calls": mean(item.trace.bill.llm_calls for item in mine),
        "rounds": mean(len(item.trace.steps) for item in mine),
    }
