"""The caller: concurrency, retries, caps and stops, on an engine that fails as told."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from data_gen.teacher.caller import (
    CallFailedError,
    CallLimits,
    RetryPolicy,
    RunStoppedError,
    TeacherCaller,
    ordered_map,
)
from data_gen.teacher.journal import Journal, read_journal
from data_gen.teacher.prompts import TeacherCall
from data_gen.teacher.spending import Estimate, Prices, SpendCap
from inference.engines.contract import (
    AccessError,
    Completion,
    DeadlineExceededError,
    Health,
    PromptTooLongError,
    Request,
    Sampling,
    TransientError,
)

QUICK = RetryPolicy(attempts=3, base_seconds=0.01)
PRICES = Prices(input=1_000_000.0, output=1_000_000.0)


class FailingEngine:
    """Answers `<prompt>!`; `outcome(prompt, times asked)` may raise or return a delay."""

    def __init__(self, outcome: Callable[[str, int], float] = lambda prompt, times: 0.0) -> None:
        self.outcome = outcome
        self.asked: list[str] = []
        self.running = self.most_running = 0

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """One request at a time, as the caller sends them."""
        prompt = requests[0].prompt
        self.asked.append(prompt)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(self.outcome(prompt, self.asked.count(prompt)))
        finally:
            self.running -= 1
        return [Completion(f"{prompt}!", (), 3, 2, "stop")]

    async def health(self) -> Health:
        """Always well."""
        return Health(True)

    async def close(self) -> None:
        """Nothing to stop."""

    def count_tokens(self, text: str) -> int:
        """Words."""
        return len(text.split())


def call(prompt: str, version: str = "v1") -> TeacherCall:
    return TeacherCall(Request(prompt=prompt, sampling=Sampling(8)), version, "stage", prompt, "x")


def caller(
    engine: FailingEngine, journal: Journal, retries: RetryPolicy = QUICK, **limits: Any
) -> TeacherCaller:
    return TeacherCaller(engine, "m", journal, CallLimits(retries=retries, **limits))


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    opened = Journal(tmp_path / "j.jsonl")
    yield opened
    opened.close()


def times(failures: int, error: Exception) -> Callable[[str, int], float]:
    def outcome(prompt: str, asked: int) -> float:
        if asked <= failures:
            raise error
        return 0.0

    return outcome


async def test_known_answers_cost_nothing_and_equal_calls_are_one(journal: Journal) -> None:
    engine = FailingEngine(lambda prompt, asked: 0.01)
    first = caller(engine, journal)
    answers = await asyncio.gather(*(first.ask(call("p")) for _ in range(5)))
    assert {answer.text for answer in answers} == {"p!"}
    assert engine.asked == ["p"]
    second = caller(FailingEngine(times(99, AssertionError())), journal)
    assert (await second.ask(call("p"))).text == "p!"
    assert second.bill.stages["stage"].known == 1
    assert second.bill.stages["stage"].attempts == 0


async def test_a_changed_prompt_is_asked_again_and_no_other(journal: Journal) -> None:
    engine = FailingEngine()
    for prompt in ("a", "b"):
        await caller(engine, journal).ask(call(prompt))
    for asked in (call("a"), call("b, reworded"), call("a", "v2")):
        await caller(engine, journal).ask(asked)
    assert engine.asked == ["a", "b", "b, reworded", "a"]


async def test_concurrency_is_bounded_and_used(journal: Journal) -> None:
    engine = FailingEngine(lambda prompt, asked: 0.01)
    asking = caller(engine, journal, concurrency=4)
    await asyncio.gather(*(asking.ask(call(str(n))) for n in range(20)))
    assert engine.most_running == 4


@pytest.mark.parametrize("error", [TransientError("busy"), DeadlineExceededError(1.0)])
async def test_what_may_pass_is_tried_again(journal: Journal, error: Exception) -> None:
    engine = FailingEngine(times(2, error))
    asking = caller(engine, journal)
    assert (await asking.ask(call("p"))).text == "p!"
    assert len(engine.asked) == 3
    bill = asking.bill.stages["stage"]
    assert (bill.calls, bill.attempts, bill.retried, bill.failed) == (1, 3, 2, 0)


async def test_failures_are_kept_as_failures_and_asked_again_by_the_next_run(
    journal: Journal,
) -> None:
    engine = FailingEngine(times(3, TransientError("busy", may_be_billed=True)))
    asking = caller(engine, journal, prices=PRICES)
    with pytest.raises(CallFailedError, match="stage of p: busy") as failed:
        await asking.ask(call("p"))
    assert failed.value.kind == "TransientError"
    assert journal.contents.failures == {"TransientError": 3}
    assert not journal.answers
    assert journal.contents.lost.cost == asking.bill.stages["stage"].at_most_lost > 0
    assert (await caller(engine, journal).ask(call("p"))).text == "p!"


async def test_what_will_not_pass_is_not_tried_again(journal: Journal) -> None:
    engine = FailingEngine(times(99, PromptTooLongError("too long")))
    asking = caller(engine, journal)
    with pytest.raises(CallFailedError):
        await asking.ask(call("p"))
    assert len(engine.asked) == 1
    with pytest.raises(CallFailedError):  # others go on
        await asking.ask(call("q"))


async def test_a_refused_key_stops_the_run(journal: Journal) -> None:
    engine = FailingEngine(times(99, AccessError("wrong key")))
    asking = caller(engine, journal)
    with pytest.raises(CallFailedError):
        await asking.ask(call("p"))
    with pytest.raises(RunStoppedError, match="wrong key"):
        await asking.ask(call("q"))
    assert engine.asked == ["p"]


async def test_an_endpoint_that_only_fails_ends_the_run(journal: Journal) -> None:
    engine = FailingEngine(times(999, TransientError("down")))
    asking = caller(engine, journal, concurrency=1, failures_in_a_row=4)
    outcomes = [await _outcome(asking, str(n)) for n in range(10)]
    assert outcomes == [CallFailedError] * 4 + [RunStoppedError] * 6


async def test_failures_between_answers_do_not_end_the_run(journal: Journal) -> None:
    def outcome(prompt: str, asked: int) -> float:
        if int(prompt) % 4:
            raise PromptTooLongError("too long")
        return 0.0

    asking = caller(FailingEngine(outcome), journal, concurrency=1, failures_in_a_row=4)
    outcomes = [await _outcome(asking, str(n)) for n in range(16)]
    assert outcomes == [None, CallFailedError, CallFailedError, CallFailedError] * 4


async def _outcome(asking: TeacherCaller, prompt: str) -> type[BaseException] | None:
    try:
        await asking.ask(call(prompt))
    except (CallFailedError, RunStoppedError) as error:
        return type(error)
    return None


async def test_an_endpoint_s_wait_is_kept_by_every_call(journal: Journal) -> None:
    started = time.monotonic()
    begun: list[tuple[str, float]] = []

    def outcome(prompt: str, asked: int) -> float:
        begun.append((prompt, time.monotonic() - started))
        if prompt == "p" and asked == 1:
            raise TransientError("busy", retry_after=0.3)
        return 0.0

    asking = caller(FailingEngine(outcome), journal)
    first = asyncio.create_task(asking.ask(call("p")))
    await asyncio.sleep(0.05)
    await asyncio.gather(first, asking.ask(call("q")))
    assert [prompt for prompt, _ in begun[:1]] == ["p"]
    assert all(seconds >= 0.3 for _, seconds in begun[1:])
    assert {prompt for prompt, _ in begun[1:]} == {"p", "q"}


async def test_a_wait_that_grows_while_a_call_waits_is_kept(journal: Journal) -> None:
    started = time.monotonic()
    begun: list[tuple[str, float]] = []
    delays = {"short": 0.0, "long": 0.05, "other": 0.0}

    class Endpoint(FailingEngine):
        async def generate(self, requests: Sequence[Request]) -> list[Completion]:
            prompt = requests[0].prompt
            begun.append((prompt, time.monotonic() - started))
            await asyncio.sleep(delays[prompt])
            if len(begun) <= 2:
                raise TransientError("busy", retry_after=0.2 if prompt == "short" else 0.6)
            return [Completion(prompt, (), 1, 1, "stop")]

    asking = caller(Endpoint(), journal)
    calls = [asyncio.create_task(asking.ask(call(prompt))) for prompt in ("short", "long")]
    await asyncio.sleep(0.02)
    await asyncio.gather(*calls, asking.ask(call("other")))
    assert all(seconds >= 0.6 for _, seconds in begun[2:])
    assert len(begun) == 5


async def test_a_wait_of_hours_ends_the_run(journal: Journal) -> None:
    asking = caller(FailingEngine(times(9, TransientError("quota", 90_000.0))), journal)
    started = time.monotonic()
    with pytest.raises(RunStoppedError, match="90,000 seconds"):
        await asking.ask(call("p"))
    assert time.monotonic() - started < 50


def test_waits_grow_are_drawn_from_zero_up_and_keep_to_what_was_told() -> None:
    policy = RetryPolicy(base_seconds=1.0, longest_seconds=8.0)
    busy = TransientError("busy")
    for attempt, longest in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (9, 8.0)):
        waits = [policy.wait_seconds(attempt, busy) for _ in range(400)]
        assert 0 <= min(waits) < 0.1 * longest
        assert 0.9 * longest < max(waits) <= longest
    told = TransientError("busy", retry_after=30.0)
    assert all(30.0 <= policy.wait_seconds(1, told) <= 31.0 for _ in range(50))


async def test_the_cap_is_never_passed_and_what_is_done_is_kept(journal: Journal) -> None:
    """An answer costs 5, a call at most its bytes, a frame and 8 tokens: 1 + 16 + 64 + 8 = 89."""
    engine = FailingEngine(lambda prompt, asked: 0.001)
    asking = caller(engine, journal, prices=PRICES, cap=SpendCap(cost=200.0), concurrency=4)
    outcomes = await asyncio.gather(*(_outcome(asking, chr(97 + n)) for n in range(26)))
    done = outcomes.count(None)
    assert set(outcomes) == {None, RunStoppedError}
    assert journal.committed().cost == 5.0 * done <= 200.0
    assert engine.most_running == 2  # a third call could pass the cap while two are under way
    again = caller(engine, journal, prices=PRICES, cap=SpendCap(cost=89.0 + 5.0 * done))
    assert await _outcome(again, "z") is None


async def test_a_cap_of_tokens_counts_all_runs_of_a_journal(tmp_path: Path) -> None:
    path, answered = tmp_path / "j.jsonl", 0
    for _ in range(3):
        journal = Journal(path)
        asking = caller(FailingEngine(), journal, cap=SpendCap(tokens=110), concurrency=1)
        outcomes = [await _outcome(asking, chr(97 + n)) for n in range(26)]
        answered = outcomes.count(None)
        journal.close()
    assert read_journal(path).committed().tokens == 5 * answered <= 110
    assert answered == (110 - 89) // 5 + 1


async def test_stop_lets_calls_under_way_end_and_wakes_those_that_wait(journal: Journal) -> None:
    def outcome(prompt: str, asked: int) -> float:
        if prompt == "waits":
            raise TransientError("busy", retry_after=60.0)
        return 0.1

    asking = caller(FailingEngine(outcome), journal)
    running = asyncio.create_task(asking.ask(call("runs")))
    waiting = asyncio.create_task(_outcome(asking, "waits"))
    await asyncio.sleep(0.02)
    started = time.monotonic()
    asking.stop("told to")
    assert (await running).text == "runs!"
    assert await waiting is RunStoppedError
    assert time.monotonic() - started < 50
    assert len(journal.answers) == 1


async def test_an_estimate_counts_what_is_not_known(journal: Journal) -> None:
    await caller(FailingEngine(), journal).ask(call("a"))
    estimate = Estimate("m", journal.answers, PRICES, lambda text: len(text))
    answers = [await estimate.ask(call(prompt)) for prompt in ("a", "bb", "bb", "ccc")]
    assert [answer.text for answer in answers] == ["a!", "x", "x", "x"]
    stage = estimate.stages["stage"]
    assert (stage.known, stage.calls, stage.input_tokens, stage.output_tokens) == (1, 2, 5, 16)
    assert stage.cost == 21.0


async def test_ordered_map_keeps_order_bounds_and_waits_before_it_raises() -> None:
    begun: list[int] = []
    ended: list[int] = []

    async def work(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0.2 if number > 20 else 0.02 * (number % 3 == 0))
        if number == 20:
            raise ValueError("twenty")
        ended.append(number)
        return number

    seen: list[int] = []
    with pytest.raises(ValueError, match="twenty"):
        async for result in ordered_map(range(100), work, window=5):
            seen.append(result)
            assert len(begun) <= len(seen) + 5
    assert seen == list(range(20))
    assert sorted([*ended, 20]) == sorted(begun)
