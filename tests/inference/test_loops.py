"""The loops' control flow, with a model that says what the test wants."""

from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import EngineError, Request
from inference.indexes.extraction import TripleCache, TripleExtractor, held_to
from inference.indexes.focused import FocusedExtractor
from inference.loops.baselines import NoRetrievalLoop, SingleShotLoop
from inference.loops.model import GraphReader, ReaderInput
from inference.loops.ras import RasLoop, RasSettings, StaticRasLoop, cite
from inference.retrieval.passages import Passage
from inference.runs.evaluation import run_questions
from inference.runs.scores import scored_trace, summarise
from models.formats.grammars import plan_regex, triples_regex
from models.formats.planning import History
from models.formats.records import QuestionRecord, Task
from models.formats.triples import Triple
from tests.inference.scripted_loop import (
    FILM,
    PERSON,
    QUESTION,
    extract_request,
    good_model,
    make_loop,
)
from tests.scripted import TitleRetriever, text_input


async def test_ras_follows_the_chain() -> None:
    engine = ScriptedEngine(good_model)
    trace = await make_loop(engine).answer(QUESTION)
    assert trace.answer == "Brill"
    assert [step.subquery for step in trace.steps] == [
        QUESTION.question,
        "Where was Ana Lis born?",
    ]
    assert trace.graph == [
        Triple("Dawn", "director", "Ana Lis"),
        Triple("Ana Lis", "place of birth", "Brill"),
    ]
    assert [c and (c.passage, c.sentence) for step in trace.steps for c in step.citations] == [
        ("1", FILM.text),
        ("2", PERSON.text),
    ]
    assert [step.decision for step in trace.steps] == [
        "[SUBQ] Where was Ana Lis born?",
        "[SUFFICIENT]",
    ]
    # Three plans, two extractions, one answer.
    assert trace.bill.llm_calls == len(engine.requests) == 6
    assert set(trace.bill.seconds) == {"plan", "retrieve", "extract", "answer"}


async def test_the_first_plan_may_ask_for_a_step_of_the_question() -> None:
    def model(request: Request) -> str:
        prompt = request.prompt or ""
        asked = "planner" in prompt and "O>" not in prompt
        return "[SUBQ] Who directed Dawn?" if asked else good_model(request)

    trace = await make_loop(ScriptedEngine(model), first_subquery="planned").answer(QUESTION)
    asked = ["Who directed Dawn?", "Where was Ana Lis born?"]
    assert [step.subquery for step in trace.steps] == asked
    assert trace.answer == "Brill"


@pytest.mark.parametrize("plan", ["[SUFFICIENT]", "no plan at all", ""])
async def test_a_first_plan_that_asks_nothing_asks_the_question(plan: str) -> None:
    engine = ScriptedEngine(lambda request: plan)
    trace = await make_loop(engine, first_subquery="planned", max_rounds=1).answer(QUESTION)
    assert [step.subquery for step in trace.steps] == [QUESTION.question]


async def test_only_the_question_itself_is_read_for_facts_that_lead_on() -> None:
    plans = iter(["Who directed Dawn?", QUESTION.question.upper(), "Where was Ana Lis born?"])
    engine = ScriptedEngine(
        lambda request: f"[SUBQ] {next(plans)}" if "planner" in (request.prompt or "") else ""
    )
    loop = make_loop(engine, first_subquery="planned", max_rounds=3)
    extract = loop.extractor.extract
    with mock.patch.object(loop.extractor, "extract", wraps=extract) as noted:
        await loop.answer(QUESTION)
    assert [call.kwargs["whole"] for call in noted.await_args_list] == [False, True, False]


async def test_without_planning_retrieves_once() -> None:
    trace = await make_loop(ScriptedEngine(good_model), planning=False).answer(QUESTION)
    assert len(trace.steps) == 1
    assert trace.answer == "unknown"
    assert trace.bill.llm_calls == 2


async def test_an_answerer_that_finds_nothing_declines() -> None:
    def silent(request: Request) -> str:
        return "[SUFFICIENT]" if "planner" in (request.prompt or "") else "Nothing\n"

    trace = await make_loop(ScriptedEngine(silent), planning=False).answer(QUESTION)
    assert trace.answer == ""
    assert trace.notes == ["declined: what was found does not settle the question"]


@pytest.mark.parametrize(
    ("written", "answer"),
    [("[SUBQ] Who directed Dawn?", ""), ("[1] Lima", "[1] Lima"), ("Lima [SUFFICIENT]",) * 2],
)
async def test_a_plan_in_the_place_of_an_answer_is_none(written: str, answer: str) -> None:
    def confused(request: Request) -> str:
        return "[SUFFICIENT]" if "planner" in (request.prompt or "") else written

    trace = await make_loop(ScriptedEngine(confused), planning=False).answer(QUESTION)
    assert trace.answer == answer
    assert trace.notes == ([] if answer else [f"not an answer: {written!r}"])


@pytest.mark.parametrize(("decline", "answer"), [(True, ""), (False, "Lima")])
@pytest.mark.parametrize("planning", [True, False])
async def test_a_loop_that_found_no_fact_declines_if_told(
    decline: bool, answer: str, planning: bool
) -> None:
    def invents(request: Request) -> str:
        prompt = request.prompt or ""
        if "planner" in prompt:
            return "[SUFFICIENT]"
        return "Lima" if "answerer" in prompt else ""

    trace = await make_loop(ScriptedEngine(invents), planning=planning, decline=decline).answer(
        QUESTION
    )
    assert (trace.answer, len(trace.steps), trace.graph) == (answer, 1, [])
    said = "declined: no passage that was found tells what was asked"
    assert (said in trace.notes) == decline


async def test_declining_leaves_what_needs_no_retrieval_and_what_found_facts() -> None:
    def knows(request: Request) -> str:
        return "[NO_RETRIEVAL]" if "planner" in (request.prompt or "") else "4"

    assert (await make_loop(ScriptedEngine(knows), decline=True).answer(QUESTION)).answer == "4"
    trace = await make_loop(ScriptedEngine(good_model), decline=True).answer(QUESTION)
    assert (trace.answer, trace.notes) == ("Brill", [])


async def test_passages_cut_by_the_reader_are_noted_once_a_question() -> None:
    def shorter(prompt: str) -> str:
        return prompt.replace(" directed by Ana Lis", "")

    engine = ScriptedEngine(lambda r: "Ana Lis" if "answerer" in (r.prompt or "") else "[SUBQ] x")
    cache = TripleCache(None, "test")
    extractor = FocusedExtractor(engine, lambda p: Request(prompt=p), cache, fitted=shorter)
    reader, passages = GraphReader(engine, text_input), [FILM, PERSON]
    own = RasSettings(max_rounds=2, first_subquery="question")
    loop = RasLoop(reader, TitleRetriever(passages), extractor, own)
    record = replace(QUESTION, context=[("Dawn", [FILM.text]), ("Ana Lis", [PERSON.text])])
    for trace in (
        await loop.answer(QUESTION),
        await StaticRasLoop(reader, extractor).answer(record),
    ):
        assert trace.notes.count("1 passage was cut to what the reader reads") == 1
        row = scored_trace(QUESTION, trace)
        assert row["cut_passages"] == 1
        assert summarise("ras", Path("x"), [row, row], 1.0)["cut_passages"] == 2


def test_each_fact_is_cited_from_the_passage_that_gave_it() -> None:
    other = Passage("3", "Dawn", "It rained. Dawn was directed by Bo Kern.")
    first, second = (Triple("Dawn", "director", name) for name in ("Ana Lis", "Bo Kern"))
    unsaid = Triple("Mars", "moon", "Phobos")
    cited = cite([second, unsaid, first], [FILM, other], [[first], [second, first, unsaid]])
    assert [c and (c.passage, c.sentence) for c in cited] == [
        ("3", "Dawn was directed by Bo Kern."),
        None,
        ("1", FILM.text),
    ]


async def test_stops_after_max_rounds() -> None:
    trace = await make_loop(ScriptedEngine(good_model), max_rounds=1).answer(QUESTION)
    assert len(trace.steps) == 1
    assert trace.notes == ["stopped after 1 rounds"]


@pytest.mark.parametrize("question", [QUESTION.question, "Where was  the director\tof Dawn born?"])
async def test_a_repeated_subquery_ends_the_loop(question: str) -> None:
    def stubborn(request: Request) -> str:
        prompt = request.prompt or ""
        return f"[SUBQ] {QUESTION.question.upper()}" if "planner" in prompt else good_model(request)

    trace = await make_loop(ScriptedEngine(stubborn)).answer(replace(QUESTION, question=question))
    assert len(trace.steps) == 1
    assert "repeated subquery" in trace.notes[0]


async def test_a_loop_that_does_not_stop_at_repeats_asks_until_its_last_round() -> None:
    def stubborn(request: Request) -> str:
        prompt = request.prompt or ""
        return f"[SUBQ] {QUESTION.question}" if "planner" in prompt else good_model(request)

    engine = ScriptedEngine(stubborn)
    trace = await make_loop(engine, stop_at_repeat=False, max_rounds=3).answer(QUESTION)
    assert [step.subquery for step in trace.steps] == [QUESTION.question] * 3
    assert trace.notes == ["stopped after 3 rounds"]


async def test_a_round_without_a_limit_keeps_all_triples_as_they_come() -> None:
    def wordy(request: Request) -> str:
        prompt = request.prompt or ""
        if prompt.startswith("extract "):
            return ", ".join(f"(S> Dawn| P> scene {n}| O> place {n})" for n in range(20))
        return f"[SUBQ] {QUESTION.question}" if "planner" in prompt else "unknown"

    settings = {"max_triples": 0, "stop_at_repeat": False, "max_rounds": 2}
    trace = await make_loop(ScriptedEngine(wordy), **settings).answer(QUESTION)
    first, second = trace.steps
    assert [triple.predicate for triple in first.triples] == [f"scene {n}" for n in range(20)]
    # g_i is what the passages say, also where an earlier round knew it (eq. 4).
    assert second.triples == first.triples


@pytest.mark.parametrize("text", ["", "I have insufficient data", "[SUBQ]", "\x00)(|"])
async def test_a_plan_that_cannot_be_read_retrieves_once_and_answers(text: str) -> None:
    def broken(request: Request) -> str:
        return text if "planner" in (request.prompt or "") else good_model(request)

    trace = await make_loop(ScriptedEngine(broken)).answer(QUESTION)
    assert len(trace.steps) == 1
    assert trace.answer == "unknown"
    assert trace.notes == [f"not a plan: {text!r}"] * 2


async def test_no_retrieval_answers_at_once() -> None:
    def knows(request: Request) -> str:
        return "[NO_RETRIEVAL]" if "planner" in (request.prompt or "") else "4"

    engine = ScriptedEngine(knows)
    trace = await make_loop(engine).answer(QUESTION)
    assert (trace.answer, trace.steps) == ("4", [])
    assert "[NO_RETRIEVAL]\nQuestion:" in (engine.requests[-1].prompt or "")


async def test_model_text_that_is_no_triple_is_no_error() -> None:
    def garbage(request: Request) -> str:
        return "(S> (S>|" if (request.prompt or "").startswith("extract") else "[SUFFICIENT]"

    trace = await make_loop(ScriptedEngine(garbage)).answer(QUESTION)
    assert trace.graph == []
    assert trace.error is None


async def test_a_cut_history_is_noted() -> None:
    def cutting_input(task: Task, history: History, sampling: object) -> ReaderInput:
        request = text_input(task, history, sampling).request  # type: ignore[arg-type]
        return ReaderInput(request, cut_triples=3)

    reader = GraphReader(ScriptedEngine(good_model), cutting_input)
    trace = await NoRetrievalLoop(reader).answer(QUESTION)
    assert trace.notes == ["answer: 3 triples left out to fit the input budget"]


async def test_constrained_plans_and_triples_are_held_to_their_grammars() -> None:
    engine = ScriptedEngine(good_model)
    make_request = held_to(triples_regex(), extract_request)
    extractor = TripleExtractor(engine, make_request, TripleCache(None, "test"))
    reader = GraphReader(engine, text_input, constrain=True)
    own = RasSettings(first_subquery="question")
    loop = RasLoop(reader, TitleRetriever([FILM, PERSON]), extractor, own)
    assert (await loop.answer(QUESTION)).answer == "Brill"
    held = {"extract": triples_regex(), "You are a planner": plan_regex()}
    for request in engine.requests:
        assert request.prompt is not None
        expected = [regex for start, regex in held.items() if request.prompt.startswith(start)]
        given = [] if request.constraint is None else [request.constraint.regex]
        assert given == expected


async def test_passages_are_extracted_once_over_many_questions() -> None:
    engine = ScriptedEngine(good_model)
    traces = await run_questions(make_loop(engine), [QUESTION] * 20, concurrency=20)
    assert {trace.answer for trace in traces} == {"Brill"}
    extractions = [r for r in engine.requests if (r.prompt or "").startswith("extract")]
    assert len(extractions) == 2


async def test_one_failure_spares_the_other_questions_and_is_not_cached() -> None:
    failing = True

    def fails_once(request: Request) -> str:
        if (request.prompt or "") == "extract Ana Lis" and failing:
            raise EngineError("out of memory")
        return good_model(request)

    loop = make_loop(ScriptedEngine(fails_once))
    other = QuestionRecord("o", "Who directed Dawn? O> Brill", "Ana Lis")
    traces = await run_questions(loop, [QUESTION, other], concurrency=2)
    assert traces[0].error == "EngineError: out of memory"
    assert (traces[0].answer, traces[1].error) == ("", None)
    failing = False
    assert (await loop.answer(QUESTION)).answer == "Brill"


async def test_results_keep_the_questions_order() -> None:
    loop = NoRetrievalLoop(GraphReader(ScriptedEngine(lambda r: r.prompt or ""), text_input))
    records = [QuestionRecord(str(i), f"question {i}", "") for i in range(30)]
    traces = await run_questions(loop, records, concurrency=7)
    assert [trace.question for trace in traces] == [record.question for record in records]


async def test_single_shot_shows_the_passages() -> None:
    engine = ScriptedEngine(lambda request: " Ana Lis ")
    loop = SingleShotLoop(engine, TitleRetriever([FILM, PERSON]), 1, max_answer_tokens=300)
    trace = await loop.answer(QUESTION)
    assert trace.answer == "Ana Lis"
    [request] = engine.requests
    assert request.messages is not None
    assert "[1] Dawn: Dawn is a film" in request.messages[0]["content"]
    assert request.sampling.max_new_tokens == 300


async def test_static_loop_structures_the_given_passages() -> None:
    engine = ScriptedEngine(good_model)
    extractor = TripleExtractor(engine, extract_request, TripleCache(None, "test"))
    loop = StaticRasLoop(GraphReader(engine, text_input, max_answer_tokens=300), extractor)
    context = [("Dawn", ["Dawn is a film.", "It is by Ana Lis."]), ("Ana Lis", ["Born in Brill."])]
    trace = await loop.answer(QuestionRecord("q", "Where?", "Brill", context=context))
    assert trace.answer == "Brill"
    assert len(trace.graph) == 2
    assert engine.requests[-1].sampling.max_new_tokens == 300


@pytest.mark.parametrize(("rounds", "sizes"), [(1, [2]), (2, [1, 1]), (5, [1, 1])])
async def test_static_rounds_share_out_the_given_passages(rounds: int, sizes: list[int]) -> None:
    engine = ScriptedEngine(good_model)
    extractor = TripleExtractor(engine, extract_request, TripleCache(None, "test"))
    loop = StaticRasLoop(GraphReader(engine, text_input), extractor, rounds=rounds)
    context = [("Dawn", ["Dawn is a film."]), ("Ana Lis", ["Born in Brill."])]
    trace = await loop.answer(QuestionRecord("q", "Where?", "Brill", context=context))
    assert [len(step.passages) for step in trace.steps] == sizes
    assert {step.subquery for step in trace.steps} == {"Where?"}
    assert (trace.answer, len(trace.graph)) == ("Brill", 2)


async def test_static_loop_needs_passages() -> None:
    engine = ScriptedEngine(good_model)
    extractor = TripleExtractor(engine, extract_request, TripleCache(None, "test"))
    with pytest.raises(ValueError, match="question q: ras_static needs passages"):
        await StaticRasLoop(GraphReader(engine, text_input), extractor).answer(QUESTION)
