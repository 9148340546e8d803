"""How many calls and rounds each paper's algorithm gives for what a trace shows."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.scripted_world.loops import Settings
from inference.hierarchy.graph import TopicGraph
from inference.loops.trace import Trace
from models.formats.evidence_answer import INSUFFICIENT
from models.formats.records import QuestionRecord

SOLVED_AS = ("factual", "associative", "causal")


def depth(record: QuestionRecord) -> int:
    """Rounds that a question takes where every search finds what it looks for: the facts in a
    row, those that wait for no other at the same time."""
    facts = len(record.evidences)
    row = {"single": 1, "bridge": facts, "comparison": 1, "bridge_comparison": 2, "intersection": 1}
    return facts // 2 if record.type == "yes_no" else row[record.type]


def ras_calls(trace: Trace, most_rounds: int) -> int:
    """RAS §3: a plan before each retrieval and one that ends them, unless the rounds are over;
    the answer."""
    plans = 1 + min(len(trace.steps), most_rounds - 1)
    return plans + 1


def tri_rag_calls(trace: Trace, most_rounds: int) -> int:
    """Tri-RAG's Algorithm 2 retrieves at once; then a plan after each round but the last; the
    answer."""
    return min(len(trace.steps), most_rounds - 1) + 1


def t2rag_calls(trace: Trace) -> int:
    """T²RAG's Algorithm 1: the decomposition, one resolution a round, the answer."""
    resolved = any("no triplet to resolve" in note for note in trace.notes)
    return 2 + (0 if resolved else len(trace.steps))


def th_rag_calls(trace: Trace, graph: TopicGraph, least_subtopics: int) -> int:
    """TH-RAG's Algorithm 2: topics, the subtopics of each that has a choice, the answer."""
    chosen = [part.split(": ")[0] for part in trace.steps[0].decision.split("; ")]
    sizes = [len(graph.subtopics_of(graph.topics.index(topic))) for topic in chosen]
    return 1 + sum(size > least_subtopics for size in sizes) + 1


def trig_nav_calls(trace: Trace) -> int:
    """Trig-Nav §3: recall and judge; one a sub-question, one a triple; the answer, unless nothing
    was solved."""
    first, *steps = trace.steps
    if first.decision == "enough":
        return 3
    asked = [step for step in steps if step.decision.split(":")[0] in SOLVED_AS]
    resolved = sum(len(s.subquery.split(" / ")) for s in steps if s not in asked)
    return 2 + len(asked) + resolved + (trace.answer != INSUFFICIENT)


def calls_of(name: str, settings: Settings, graph: TopicGraph | None) -> Callable[[Trace], int]:
    """The rule of one loop; `graph` is TH-RAG's."""
    if name == "ras":
        return lambda trace: ras_calls(trace, settings.ras.max_rounds)
    if name == "tri_rag":
        return lambda trace: tri_rag_calls(trace, settings.tri_rag.max_rounds)
    if name == "th_rag":
        assert graph is not None
        return lambda trace: th_rag_calls(trace, graph, settings.th_rag.subtopics[0])
    return t2rag_calls if name == "t2rag" else trig_nav_calls


def rounds_fit(name: str, record: QuestionRecord, trace: Trace) -> bool:
    """Whether a loop that a perfect model drives took no more rounds than its questions need.

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
