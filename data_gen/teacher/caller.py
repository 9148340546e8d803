"""Calls of a teacher: answered from the journal, bounded, tried again, and stopped."""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from data_gen.teacher.journal import Journal, JournalError
from data_gen.teacher.prompts import Answer, TeacherCall, call_key
from data_gen.teacher.spending import Amount, Prices, RunBill, SpendCap, SpendCapError, StageBill
from inference.engines.contract import (
    AccessError,
    DeadlineExceededError,
    Engine,
    EngineClosedError,
    EngineDiedError,
    EngineError,
    TransientError,
    UnknownAdapterError,
    UnsupportedRequestError,
)

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
# What every other call would meet too.
HOPELESS = (AccessError, EngineClosedError, UnknownAdapterError, UnsupportedRequestError)
# After these the same call may succeed later.
TRANSIENT = (TransientError, DeadlineExceededError, EngineDiedError)


def may_be_billed(error: EngineError) -> bool:
    """Return whether an answer may have been paid for that never came."""
    if isinstance(error, TransientError):
        return error.may_be_billed
    return isinstance(error, DeadlineExceededError | EngineDiedError)


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with full jitter; an endpoint's own word comes first.

    attempts: of one call, the first included. base_seconds: the longest first wait; it doubles
    with each attempt up to longest_seconds. longest_told_seconds: an endpoint that asks to wait
    for longer ends the run.
    """

    attempts: int = 10
    base_seconds: float = 1.0
    longest_seconds: float = 60.0
    longest_told_seconds: float = 3600.0

    def wait_seconds(self, failed_attempts: int, error: EngineError) -> float:
        """Return the wait after so many failed attempts, at least what the endpoint asks for."""
        longest = min(self.longest_seconds, self.base_seconds * 2 ** (failed_attempts - 1))
        return (told_seconds(error) or 0.0) + random.uniform(0.0, longest)


def told_seconds(error: EngineError) -> float | None:
    """Return how long the endpoint asks to wait, if it does."""
    return error.retry_after if isinstance(error, TransientError) else None


async def ordered_map(
    items: Iterable[ItemT], work: Callable[[ItemT], Awaitable[ResultT]], window: int
) -> AsyncGenerator[ResultT, None]:
    """Results of `work` in order, at most `window` items begun and not yet given out.

    When one raises, those that were begun are waited for before its error goes on: what they pay
    for is kept.
    """
    begun: deque[asyncio.Future[ResultT]] = deque()
    try:
        for item in items:
            if len(begun) >= window:
                yield await begun[0]
                begun.popleft()
            begun.append(asyncio.ensure_future(work(item)))
        while begun:
            yield await begun[0]
            begun.popleft()
    finally:
        await asyncio.gather(*begun, return_exceptions=True)


class CallFailedError(RuntimeError):
    """A call without an answer; others go on. `kind` is the type of the last failure."""

    def __init__(self, call: TeacherCall, error: EngineError) -> None:
        super().__init__(f"{call.stage} of {call.subject}: {error}")
        self.kind = type(error).__name__


class RunStoppedError(RuntimeError):
    """No further call is made; what is done is in the journal. The message says why."""


@dataclass(frozen=True)
class CallLimits:
    """The limits of a caller.

    concurrency: most requests in flight. prices, cap: see spending. deadline_seconds: of one
    attempt. failures_in_a_row: so many calls that fail one after another end the run, at least
    twice the concurrency.
    """

    concurrency: int = 16
    prices: Prices = field(default_factory=Prices)
    cap: SpendCap = field(default_factory=SpendCap)
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    deadline_seconds: float | None = None
    failures_in_a_row: int = 20


class TeacherCaller:
    """Asks an engine; safe to call from many coroutines at once.

    The engine must not retry by itself. After `stop`, requests in flight still end and are kept,
    and every other call raises RunStoppedError.
    """

    def __init__(self, engine: Engine, model: str, journal: Journal, limits: CallLimits) -> None:
        """`model` tells one teacher from another, such as an endpoint's name of it."""
        self.bill = RunBill()
        self._engine = engine
        self._model = model
        self._journal = journal
        self._limits = limits
        self._in_flight = asyncio.Semaphore(limits.concurrency)
        self._running: dict[str, asyncio.Task[Answer]] = {}
        self._stopped = asyncio.Event()
        self._reason = ""
        self._not_before = 0.0
        self._failed_in_a_row = 0

    async def ask(self, call: TeacherCall) -> Answer:
        """Return the answer to a call; the same call made twice at once is sent once.

        Raises:
            CallFailedError: this call has no answer.
            RunStoppedError: no call is made any more.
        """
        key = call_key(self._model, call)
        known = self._journal.answers.get(key)
        if known is not None:
            self.bill.stages[call.stage].known += 1
            return known
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._answer(key, call))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(task)

    def stop(self, reason: str) -> None:
        """Make no further call; the first reason given stands."""
        if not self._stopped.is_set():
            self._reason = reason
            self._stopped.set()

    async def _answer(self, key: str, call: TeacherCall) -> Answer:
        policy, bill = self._limits.retries, self.bill.stages[call.stage]
        for attempt in range(1, policy.attempts + 1):
            try:
                return await self._attempt(key, call, bill)
            except EngineError as error:
                self._stop_where_hopeless(error)
                if attempt == policy.attempts or not isinstance(error, TRANSIENT):
                    bill.failed += 1
                    self._failed_in_a_row += 1
                    most = max(self._limits.failures_in_a_row, 2 * self._limits.concurrency)
                    if self._failed_in_a_row >= most:
                        self.stop(f"{most} calls failed one after another, the last with: {error}")
                    raise CallFailedError(call, error) from error
                self._require_going()
                bill.retried += 1
                await self._sleep(policy.wait_seconds(attempt, error))
        raise ValueError(f"{policy.attempts} attempts: a policy has at least one")

    async def _attempt(self, key: str, call: TeacherCall, bill: StageBill) -> Answer:
        """Send a call once; what comes of it is in the journal before anybody sees it."""
        async with self._in_flight:
            await self._endpoint_is_ready()
            most = self._begin(key, call)
            bill.attempts += 1
            request = replace(call.request, deadline_seconds=self._limits.deadline_seconds)
            try:
                [completion] = await self._engine.generate([request])
            except EngineError as error:
                billed = may_be_billed(error)
                bill.broke_off(most if billed else Amount())
                with self._stopped_by_a_full_disk():
                    self._journal.failure(key, error, billed)
                raise
            answer = self._limits.prices.answer(completion, call)
            with self._stopped_by_a_full_disk():
                self._journal.answer(key, answer)
            bill.answered(answer)
            self._failed_in_a_row = 0
            return answer

    def _begin(self, key: str, call: TeacherCall) -> Amount:
        """Note an attempt before it is sent; its upper bound. Raises RunStoppedError."""
        self._require_going()
        most = self._limits.prices.most(call)
        try:
            self._limits.cap.check(self._journal.committed(), most)
        except SpendCapError as error:
            self.stop(str(error))
            self._require_going()
        with self._stopped_by_a_full_disk():
            self._journal.begin(key, call, most)
        return most

    def _require_going(self) -> None:
        if self._stopped.is_set():
            raise RunStoppedError(self._reason)

    @contextmanager
    def _stopped_by_a_full_disk(self) -> Iterator[None]:
        try:
            yield
        except JournalError as error:
            self.stop(str(error))
            raise RunStoppedError(self._reason) from error

    async def _endpoint_is_ready(self) -> None:
        """Wait as the endpoint asks, also where it asks for more while this waits."""
        while (wait := self._not_before - time.monotonic()) > 0 and not self._stopped.is_set():
            await self._sleep(wait)

    async def _sleep(self, seconds: float) -> None:
        """Wait, but not when the run is stopped."""
        if seconds <= 0:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)

    def _stop_where_hopeless(self, error: EngineError) -> None:
        """Stop where every call would fail alike, and hold all back where the endpoint says so."""
        if isinstance(error, HOPELESS):
            self.stop(str(error))
        told = told_seconds(error)
        if told is None:
            return
        if told > self._limits.retries.longest_told_seconds:
            self.stop(f"the endpoint asks to wait {told:,.0f} seconds ({error})")
        self._not_before = max(self._not_before, time.monotonic() + told)
