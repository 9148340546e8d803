"""Requests of concurrent callers, run together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from inference.engines.contract import (
    Completion,
    DeadlineExceededError,
    Engine,
    EngineClosedError,
    EngineError,
    Health,
    Request,
    Sampling,
    generation_error,
)

PROBE_SECONDS = 60.0
Outcome = Completion | EngineError
logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
# A group that lost this often to fuller ones is next, so that none starves.
MOST_TIMES_PASSED_OVER = 2


async def probe(engine: Engine, restarts: int = 0) -> Health:
    """Return the health of an engine that has nothing else to do; never raises EngineError."""
    request = Request(
        prompt="1", sampling=Sampling(max_new_tokens=1), deadline_seconds=PROBE_SECONDS
    )
    try:
        await engine.generate([request])
    except EngineError as error:
        return Health(False, f"{type(error).__name__}: {error}", restarts=restarts)
    return Health(True, seconds_since_progress=0.0, restarts=restarts)


class RunningRequests:
    """The requests at work in an engine that sends them on, each with an outcome of its own."""

    def __init__(self) -> None:
        """None runs yet."""
        self.closed = False
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def refuse_when_closed(self) -> None:
        """Raise EngineClosedError once the engine is closed."""
        if self.closed:
            raise EngineClosedError("the engine is closed")

    async def settle(
        self, request: Request, answer: Callable[[Request], Awaitable[Completion]]
    ) -> Outcome:
        """Return what `answer` makes of a request within its deadline, or its failure as a value.

        So one failure does not cancel the neighbours.
        """
        if self.closed:
            return EngineClosedError("the engine is closed")
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(request.deadline_seconds):
                return await answer(request)
        except EngineError as error:
            return error
        except TimeoutError:
            return DeadlineExceededError(request.deadline_seconds)
        except asyncio.CancelledError:
            if not self.closed:
                raise
            return EngineClosedError("the engine was closed while this request ran")
        except Exception as error:
            return generation_error(error)
        finally:
            self._tasks.discard(task)

    def forget(self) -> None:
        """Leave out those whose event loop is gone."""
        self._tasks.clear()

    async def close(self) -> None:
        """End those that run with EngineClosedError, and all that come."""
        self.closed = True
        running = [task for task in self._tasks if not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def completions_of(calls: Iterable[Coroutine[Any, Any, Outcome]]) -> list[Completion]:
    """Return the completions of calls that give a failure as a value, in order.

    Raises the first EngineError once all calls are done.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    completions = []
    for task in tasks:
        outcome = task.result()
        if isinstance(outcome, EngineError):
            raise outcome
        completions.append(outcome)
    return completions


@dataclass(frozen=True)
class Limits:
    """A batch's most rows, most tokens (rows x longest row) and how long to wait for company."""

    max_batch_size: int = 32
    max_batch_tokens: int = 16384
    gather_seconds: float = 0.006


@dataclass(frozen=True, eq=False)
class Work(Generic[T]):
    """One item to run.

    group: only items of one group share a batch. length: prompt and new tokens.
    deadline_seconds: from its submission. on_settled: called once nobody waits for its outcome any
        more, be it there, too late or not wanted; a running batch may let the item go.
    """

    item: T
    group: Hashable
    length: int
    deadline_seconds: float | None = None
    on_settled: Callable[[], None] | None = None


@dataclass(eq=False)
class Job(Generic[T, R]):
    """One item in the queue and who waits for it."""

    work: Work[T]
    future: asyncio.Future[R]
    passed_over: int = 0

    @property
    def length(self) -> int:
        """Prompt and new tokens."""
        return self.work.length


def similar_lengths(jobs: Sequence[Job[T, R]], limits: Limits) -> list[Job[T, R]]:
    """Return the first job and those nearest to its length that fit one batch, shortest first."""
    order = sorted(jobs, key=lambda job: job.length)
    low = high = next(place for place, job in enumerate(order) if job is jobs[0])
    while high - low + 1 < limits.max_batch_size:
        longer = order[high + 1] if high + 1 < len(order) else None
        if longer and (high - low + 2) * longer.length > limits.max_batch_tokens:
            longer = None
        shorter = order[low - 1] if low else None
        if shorter and (high - low + 2) * order[high].length > limits.max_batch_tokens:
            shorter = None
        if longer is None and shorter is None:
            break
        gap_up = longer.length - order[high].length if longer else None
        gap_down = order[low].length - shorter.length if shorter else None
        if gap_down is None or (gap_up is not None and gap_up < gap_down):
            high += 1
        else:
            low -= 1
    return order[low : high + 1]


def choose_batch(queue: Sequence[Job[T, R]], limits: Limits) -> list[Job[T, R]]:
    """Return the next batch of a queue in order of arrival: one group, similar lengths.

    Of the groups that fill a batch the one that waited longest, else the oldest job's group.
    """
    groups: dict[Hashable, list[Job[T, R]]] = {}
    for job in queue:
        groups.setdefault(job.work.group, []).append(job)
    oldest = next(iter(groups.values()))
    full = (jobs for jobs in groups.values() if len(jobs) >= limits.max_batch_size)
    chosen = oldest if oldest[0].passed_over >= MOST_TIMES_PASSED_OVER else next(full, oldest)
    if chosen is not oldest:
        oldest[0].passed_over += 1
    return similar_lengths(chosen, limits)


class DynamicBatcher(Generic[T, R]):
    """Collects jobs of concurrent callers and runs them in batches, one batch at a time."""

    def __init__(self, run: Callable[[list[T]], list[R]], limits: Limits) -> None:
        """run: called in a worker thread; returns one result an item, in order."""
        self.run = run
        self.limits = limits
        self.queue: list[Job[T, R]] = []
        self.batch_sizes: list[int] = []
        self.closed = False
        self._running = 0
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._worker: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()

    @property
    def unfinished(self) -> int:
        """Items that wait or run."""
        return len(self.queue) + self._running

    async def submit(self, works: Sequence[Work[T]]) -> list[R]:
        """Queue each and wait for all; the first failure is raised.

        Raises DeadlineExceededError for one that is not done in time.
        """
        if self.closed:
            raise EngineClosedError("the engine is closed")
        loop = asyncio.get_running_loop()
        self._start(loop)
        jobs = [self._job(work, loop) for work in works]
        self.queue.extend(jobs)
        self._arrived.set()
        try:
            results = await asyncio.gather(*(job.future for job in jobs), return_exceptions=True)
        except asyncio.CancelledError:
            for job in jobs:
                job.future.cancel()
            raise
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    def _job(self, work: Work[T], loop: asyncio.AbstractEventLoop) -> Job[T, R]:
        job: Job[T, R] = Job(work, loop.create_future())
        if work.deadline_seconds is not None:
            timer = loop.call_later(work.deadline_seconds, _expire, job)
            job.future.add_done_callback(lambda _: timer.cancel())
        if work.on_settled is not None:
            settled = work.on_settled
            job.future.add_done_callback(lambda _: settled())
        return job

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the worker, anew when an earlier event loop took it along as it ended."""
        worker = self._worker
        if worker is None or worker.done() or worker.get_loop() is not loop:
            self.queue.clear()
            self._arrived = asyncio.Event()
            self._worker = loop.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            await self._gather_more()
            self.queue = [job for job in self.queue if not job.future.done()]
            if self.queue:
                batch = choose_batch(self.queue, self.limits)
                taken = set(map(id, batch))
                self.queue = [job for job in self.queue if id(job) not in taken]
                await self._run_jobs(batch)
            if not self.queue:
                self._arrived.clear()

    async def _gather_more(self) -> None:
        """Wait a moment while the queue is short of a batch and still growing."""
        waiting = -1
        while waiting < len(self.queue) < self.limits.max_batch_size:
            waiting = len(self.queue)
            await asyncio.sleep(self.limits.gather_seconds)

    async def _run_jobs(self, jobs: list[Job[T, R]]) -> None:
        """Run a batch; where it fails, run its halves, so that one bad job fails alone."""
        loop = asyncio.get_running_loop()
        self.batch_sizes.append(len(jobs))
        self._running = len(jobs)
        try:
            results = await loop.run_in_executor(
                self._executor, self.run, [job.work.item for job in jobs]
            )
        except Exception as error:
            await self._isolate(jobs, error)
            return
        finally:
            self._running = 0
        for job, result in zip(jobs, results, strict=True):
            if not job.future.done():
                job.future.set_result(result)

    async def _isolate(self, jobs: list[Job[T, R]], error: Exception) -> None:
        if len(jobs) > 1 and not isinstance(error, EngineClosedError):
            logger.warning("a batch of %d failed (%s); running its halves", len(jobs), error)
            half = len(jobs) // 2
            await self._run_jobs(jobs[:half])
            await self._run_jobs(jobs[half:])
            return
        if not isinstance(error, EngineError):
            error = generation_error(error)
        for job in jobs:
            if not job.future.done():
                job.future.set_exception(error)

    async def close(self) -> None:
        """Fail what waits, let a running batch end, and free the thread."""
        self.closed = True
        for job in self.queue:
            if not job.future.done():
                job.future.set_exception(EngineClosedError("the engine was closed"))
        self.queue.clear()
        await asyncio.to_thread(self._executor.shutdown, wait=True, cancel_futures=True)
        # The batch that was running resolves its futures in the loop's next turns.
        await asyncio.sleep(0)
        if self._worker is not None and not self._worker.done():
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)


def _expire(job: Job[T, R]) -> None:
    if not job.future.done():
        job.future.set_exception(DeadlineExceededError(job.work.deadline_seconds))
