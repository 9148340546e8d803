"""The Tri-RAG loop and its evidence block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import Request
from inference.indexes.knowledge_base.store import KnowledgeBase, Output, extend
from inference.loops.model import GraphReader
from inference.loops.tri_rag import TriRagLoop, TriRagSettings, fit_evidence
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.conditions import ConditionTriplet, format_conditions, parse_conditions
from models.formats.records import QuestionRecord
from models.formats.triples import Triple
from tests.scripted import text_input

WORDS = st.lists(st.sampled_from(["ab", "c", "def"]), min_size=1, max_size=6).map(" ".join)
TRIPLETS = st.builds(ConditionTriplet, WORDS, WORDS | st.just(""), WORDS)
AUTHOR = ConditionTriplet(
    "Harry Potter; author", "She wrote it.", "Harry Potter was written by Rowling."
)
BIRTH = ConditionTriplet("Rowling; date of birth", "", "Rowling was born on 31 July 1965.")
OTHER = ConditionTriplet("Dune; author", "", "Dune was written by Herbert.")
QUESTION = QuestionRecord("q", "When was the author of Harry Potter born?", "1965")


def count_words(text: str) -> int:
    return len(text.split())


@given(st.lists(TRIPLETS, min_size=1, max_size=5), st.integers(1, 60))
def test_a_budget_cuts_proofs_first_and_never_a_border(
    triplets: list[ConditionTriplet], budget: int
) -> None:
    evidence = fit_evidence(triplets, budget, count_words)
    assert parse_conditions(evidence.text).triplets == list(evidence.triplets)
    within = count_words(evidence.text) <= budget
    # One triplet with one word of its conclusion is what is always left.
    assert within or (len(evidence.triplets) == 1 and " " not in evidence.triplets[0].conclusion)
    for kept, whole in zip(evidence.triplets, triplets, strict=False):
        assert kept.condition == whole.condition and whole.proof.startswith(kept.proof)
    if evidence.left_out:
        assert not any(triplet.proof for triplet in evidence.triplets)
    if evidence.is_whole:
        assert within and list(evidence.triplets) == triplets


def test_the_last_proofs_go_first_and_keep_what_fits() -> None:
    triplets = [
        ConditionTriplet("a", "one two three", "b"),
        ConditionTriplet("c", "four five", "d"),
    ]
    whole = count_words(format_conditions(triplets))
    assert fit_evidence(triplets, whole, count_words).triplets == tuple(triplets)
    less = fit_evidence(triplets, whole - 1, count_words)
    assert [t.proof for t in less.triplets] == ["one two three", "four"]
    least = fit_evidence(triplets, whole - 4, count_words)
    assert [t.proof for t in least.triplets] == ["one", ""] and least.cut_proofs == 2
    assert fit_evidence([], 5, count_words).text == ""


def base() -> KnowledgeBase:
    texts = {"p1": [AUTHOR], "p2": [BIRTH], "p3": [OTHER]}
    outputs = [
        Output(name, "", " ".join(vars(t[0]).values()), format_conditions(t), False)
        for name, t in texts.items()
    ]
    return extend(None, outputs, load_sentence_encoder("hash"))


async def test_algorithm_2_shows_the_generator_full_triplets() -> None:
    engine = ScriptedEngine(lambda request: " 1965 \n")
    settings = TriRagSettings(top_k=3, selected=2, budget=100)
    loop = TriRagLoop(engine, base(), settings, find_source=lambda name: Passage(name, "", ""))
    trace = await loop.answer(QUESTION)
    assert trace.answer == "1965"
    [request] = engine.requests
    assert request.messages is not None
    content = request.messages[0]["content"]
    evidence = parse_conditions(content.split("\n\n")[1]).triplets
    assert len(evidence) == 2 and set(evidence) <= {AUTHOR, BIRTH, OTHER}
    assert content.endswith(f"Question: {QUESTION.question}")
    assert len(trace.steps) == 1 and len(trace.steps[0].passages) == 2
    assert trace.bill.llm_calls == 1


async def test_hops_follow_the_planner_with_what_was_found() -> None:
    plans = iter(["[SUBQ] Rowling; date of birth", "[SUBQ] rowling; Date of birth"])

    def script(request: Request) -> str:
        is_plan = "You are a planner" in (request.prompt or "")
        return next(plans) if is_plan else "31 July 1965"

    engine = ScriptedEngine(script)
    settings = TriRagSettings(top_k=1, selected=1, max_rounds=4)
    loop = TriRagLoop(engine, base(), settings, GraphReader(engine, text_input))
    question = QuestionRecord("q", "Harry Potter; author", "")
    trace = await loop.answer(question)
    assert [step.subquery for step in trace.steps] == [
        "Harry Potter; author",
        "Rowling; date of birth",
    ]
    assert trace.graph == [
        Triple("Harry Potter", "author", "Rowling"),
        Triple("Rowling", "date of birth", "31 July 1965"),
    ]
    assert trace.answer == "31 July 1965" and trace.bill.llm_calls == 3
    last = engine.requests[-1].prompt or ""
    assert "(S> Rowling| P> date of birth| O> 31 July 1965)" in last


async def test_a_reader_of_whole_triplets_is_shown_the_block_and_no_fact() -> None:
    engine = ScriptedEngine(lambda request: "31 July 1965")
    settings = TriRagSettings(top_k=2, selected=2, evidence="full")
    loop = TriRagLoop(engine, base(), settings, GraphReader(engine, text_input))
    trace = await loop.answer(QUESTION)
    [step] = trace.steps
    assert step.texts and all(text.startswith("[C] ") for text in step.texts)
    last = engine.requests[-1].prompt or ""
    assert "Retrieved Text: [" in last and all(text in last for text in step.texts)
    assert "(S> " not in last
    # What was found counts as found, whatever form it is read in.
    assert len(trace.graph) == len(step.texts)


async def test_a_planner_that_repeats_the_question_with_its_spaces_folded_is_done() -> None:
    engine = ScriptedEngine(
        lambda request: (
            "[SUBQ] harry potter; author" if "planner" in (request.prompt or "") else "x"
        )
    )
    settings = TriRagSettings(top_k=1, selected=1, max_rounds=4)
    loop = TriRagLoop(engine, base(), settings, GraphReader(engine, text_input))
    trace = await loop.answer(QuestionRecord("q", "Harry  Potter;\tauthor", ""))
    assert len(trace.steps) == 1


async def test_a_small_budget_is_noted() -> None:
    engine = ScriptedEngine(lambda request: "x")
    loop = TriRagLoop(engine, base(), TriRagSettings(top_k=3, selected=3, budget=12))
    trace = await loop.answer(QUESTION)
    assert any("evidence budget of 12 tokens" in note for note in trace.notes)


def planning(*plans: str) -> ScriptedEngine:
    """An engine whose planner writes these plans, one after another."""
    left = iter(plans)
    return ScriptedEngine(
        lambda request: next(left) if "You are a planner" in (request.prompt or "") else "x"
    )


async def test_a_triplet_that_was_cut_to_the_budget_is_not_found_again() -> None:
    engine = planning("[SUBQ] author of Harry Potter", "[SUFFICIENT]")
    whole = count_words(format_conditions([AUTHOR]))
    settings = TriRagSettings(top_k=1, selected=1, max_rounds=3, budget=whole - 1)
    loop = TriRagLoop(engine, base(), settings, GraphReader(engine, text_input))
    trace = await loop.answer(QuestionRecord("q", "Harry Potter; author", ""))
    assert [len(step.triples) for step in trace.steps] == [1, 0]
    assert len(trace.notes) == 1 and "1 proofs cut, 0 triplets left out" in trace.notes[0]


async def test_a_triplet_that_did_not_fit_at_all_may_be_found_again() -> None:
    engine = planning("[SUBQ] Dune; author", "[SUFFICIENT]")
    fits = count_words(format_conditions([BIRTH]))
    settings = TriRagSettings(top_k=3, selected=3, max_rounds=3, budget=fits)
    loop = TriRagLoop(engine, base(), settings, GraphReader(engine, text_input))
    trace = await loop.answer(QuestionRecord("q", "Rowling; date of birth", ""))
    assert [[t.subject for t in step.triples] for step in trace.steps] == [["Rowling"], ["Dune"]]


@pytest.mark.parametrize("rounds", [1, 3])
async def test_without_a_planner_there_is_one_round(rounds: int) -> None:
    engine = ScriptedEngine(lambda request: "x")
    loop = TriRagLoop(engine, base(), TriRagSettings(max_rounds=rounds))
    assert len((await loop.answer(QUESTION)).steps) == 1
