"""Plans of several steps, and answers asked for beside a plan: what the loop of RAS does."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import Completion, GenerationError, Request
from inference.loops.model import GraphReader
from inference.loops.ras import RasLoop
from inference.loops.trace import Trace
from models.formats.planning import MAX_SUBQUERIES, History
from models.formats.records import QuestionRecord
from models.formats.triples import Triple
from tests.inference.scripted_loop import FILM, PERSON, QUESTION, good_model, make_loop
from tests.scripted import TitleRetriever, text_input

LIVES = QuestionRecord("l", "Were Dawn's director and Ana Lis born in Brill?", "yes")


BOTH = "[SUBQ] Who directed Dawn?\n[SUBQ] Where was Ana Lis born?"


def ahead(plans: list[str], **settings: Any) -> tuple[RasLoop, ScriptedEngine]:
    """A loop whose planner writes these texts one after the other, all of which count."""
    written = iter(plans)

    def model(request: Request) -> str:
        is_plan = (request.prompt or "").startswith("You are a planner")
        return next(written) if is_plan else good_model(request)

    engine = ScriptedEngine(model)
    loop = make_loop(engine, first_subquery="planned", **settings)
    loop.reader = GraphReader(engine, text_input, plan_ahead=True)
    return loop, engine


def plans_asked(engine: ScriptedEngine) -> int:
    return sum(
        (request.prompt or "").startswith("You are a planner") for request in engine.requests
    )


async def test_all_subqueries_of_a_plan_are_searched_and_its_end_is_the_loops() -> None:
    loop, engine = ahead([f"{BOTH}\n[SUFFICIENT]"])
    trace = await loop.answer(LIVES)
    assert [step.subquery for step in trace.steps] == [
        "Who directed Dawn?",
        "Where was Ana Lis born?",
    ]
    assert [len(step.triples) for step in trace.steps] == [1, 1]
    assert (plans_asked(engine), trace.answer) == (1, "Brill")


async def test_without_an_end_the_planner_looks_again() -> None:
    loop, engine = ahead([BOTH, "[SUFFICIENT]"])
    trace = await loop.answer(LIVES)
    assert (len(trace.steps), plans_asked(engine)) == (2, 2)
    assert trace.steps[-1].decision == "[SUFFICIENT]"


async def test_an_end_behind_what_was_not_found_is_none() -> None:
    loop, engine = ahead(["[SUBQ] Who directed Dusk?\n[SUFFICIENT]", f"{BOTH}\n[SUFFICIENT]"])
    loop.retriever = TitleRetriever([FILM, PERSON])
    with mock.patch.object(loop.extractor, "extract", wraps=loop.extractor.extract) as extract:
        extract.side_effect = [[[]], [[Triple("a", "b", "c")]], [[Triple("d", "e", "f")]]]
        trace = await loop.answer(LIVES)
    assert [len(step.triples) for step in trace.steps] == [0, 1, 1]
    assert plans_asked(engine) == 2


async def test_a_planner_ahead_keeps_to_the_rounds_and_asks_nothing_twice() -> None:
    loop, _ = ahead([f"{BOTH}\n[SUFFICIENT]", "[SUFFICIENT]"], max_rounds=1)
    trace = await loop.answer(LIVES)
    assert [step.subquery for step in trace.steps] == ["Who directed Dawn?"]
    assert trace.notes == ["stopped after 1 rounds"]
    loop, _ = ahead([BOTH, "[SUBQ] Who is it?\n[SUBQ] who directed  Dawn?\n[SUFFICIENT]", "x"])
    trace = await loop.answer(LIVES)
    assert [step.subquery for step in trace.steps][2:] == ["Who is it?"]
    # The plan's first subquery is searched all the same, and the planner looks again.
    assert trace.notes[0] == "left out a repeated subquery: 'who directed Dawn?'"


async def test_an_answer_beside_a_plan_is_dropped_where_the_plan_asked_on() -> None:
    loop, _ = ahead(["[SUBQ] Who directed Dawn?", "[SUBQ] Where was Ana Lis born?\n[SUFFICIENT]"],
                    speculate_answer=True)  # fmt: skip
    trace = await loop.answer(QUESTION)
    assert (len(trace.steps), trace.answer) == (2, "Brill")


async def test_where_one_search_fails_what_the_others_found_stays_in_the_trace() -> None:
    loop, _ = ahead([f"{BOTH}\n[SUFFICIENT]"])
    extract, second_ended = loop.extractor.extract, asyncio.Event()

    async def failing(*arguments: Any, **options: Any) -> list[list[Triple]]:
        if arguments[2] == "Who directed Dawn?":
            raise GenerationError("cannot be read")
        for _ in range(9):
            await asyncio.sleep(0)
        found = await extract(*arguments, **options)
        second_ended.set()
        return found

    trace = Trace(LIVES.question)
    with (
        mock.patch.object(loop.extractor, "extract", failing),
        pytest.raises(GenerationError, match="cannot be read"),
    ):
        await loop.answer(LIVES, trace)
    assert second_ended.is_set()
    assert [step.subquery for step in trace.steps] == ["Where was Ana Lis born?"]


@pytest.mark.parametrize("end", ["[SUBQ] Where was Ana Lis born?\n[SUFFICIENT]", "[SUFFICIENT]"])
async def test_an_answer_beside_a_plan_may_fail(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, _ = ahead(["[SUBQ] Who directed Dawn?", end], speculate_answer=True)
    answer, asked = loop.reader.answer, []

    async def fails_once(history: History, trace: Trace) -> str:
        asked.append(history)
        if len(asked) == 1:
            raise GenerationError("cannot be written")
        return await answer(history, trace)

    monkeypatch.setattr(loop.reader, "answer", fails_once)
    assert (await loop.answer(QUESTION)).answer
    assert len(asked) == 2


async def test_no_more_is_asked_at_once_than_a_planner_may() -> None:
    many = "\n".join(f"[SUBQ] Who is number {n}?" for n in range(MAX_SUBQUERIES + 1))
    loop, engine = ahead([many, "[SUFFICIENT]"])
    trace = await loop.answer(LIVES)
    assert (len(trace.steps), plans_asked(engine)) == (MAX_SUBQUERIES, 2)


async def test_a_planner_of_single_plans_has_its_first_one_read() -> None:
    loop, engine = ahead([BOTH, "[SUFFICIENT]"])
    loop.reader = GraphReader(engine, text_input)
    trace = await loop.answer(LIVES)
    assert [step.subquery for step in trace.steps] == ["Who directed Dawn?"]


def ends_at_once(request: Request) -> str:
    return "[SUFFICIENT]" if "planner" in (request.prompt or "") else "Nothing\n"


def repeats(request: Request) -> str:
    return f"[SUBQ] {QUESTION.question}" if "planner" in (request.prompt or "") else "Lima"


@pytest.mark.parametrize("decline", [False, True])
@pytest.mark.parametrize("max_rounds", [1, 3])
@pytest.mark.parametrize("model", [good_model, ends_at_once, repeats])
async def test_an_answer_asked_for_beside_the_plan_is_the_one_asked_for_after_it(
    model: Callable[[Request], str], max_rounds: int, decline: bool
) -> None:
    def told(trace: Trace) -> dict[str, Any]:
        return {name: value for name, value in trace.to_json().items() if name != "bill"}

    settings = {"max_rounds": max_rounds, "decline": decline}
    after, beside = ScriptedEngine(model), ScriptedEngine(model)
    plain = await make_loop(after, **settings).answer(QUESTION)
    early = await make_loop(beside, speculate_answer=True, **settings).answer(QUESTION)
    assert told(early) == told(plain)
    # Every answer is paid for, those that were dropped too.
    assert early.bill.llm_calls == len(beside.requests) >= len(after.requests)
    assert {request.prompt for request in after.requests} <= {r.prompt for r in beside.requests}


async def test_plan_and_answer_are_under_way_together() -> None:
    class Slow(ScriptedEngine):
        running = most = 0

        async def generate(self, requests: Sequence[Request]) -> list[Completion]:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0)
            self.running -= 1
            return await super().generate(requests)

    engine = Slow(good_model)
    await make_loop(engine).answer(QUESTION)
    assert engine.most == 1
    await make_loop(engine, speculate_answer=True).answer(QUESTION)
    assert engine.most == 2


async def test_an_answer_that_somebody_follows_is_asked_for_once() -> None:
    class Listener:
        def begins(self, stage: str) -> None: ...

        def writes(self, text: str) -> None: ...

    for trace in (Trace("q", listener=Listener()), Trace("q", evidence_only=True)):
        engine = ScriptedEngine(good_model)
        await make_loop(engine, speculate_answer=True).answer(QUESTION, trace)
        answers = [r for r in engine.requests if "answerer" in (r.prompt or "")]
        assert len(answers) == (not trace.evidence_only)
