"""Requests of concurrent callers, run together."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from inference.engines.batch_choice import (
    Job,
    Limits,
    Running,
    Work,
    choose_batch,
    choose_joining,
)
from inference.engines.contract import (
    DeadlineExceededError,
    EngineClosedError,
    EngineError,
    generation_error,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


class RunningBatch(Generic[T, R]):
    """Jobs of one group that are at work together; others may join them.

    Its methods are called by the thread that runs it.
    """

    def __init__(
        self, batcher: DynamicBatcher[T, R], jobs: Sequence[Job[T, R]], joinable: bool
    ) -> None:
        """joinable: whether others may join."""
        self._batcher = batcher
        self._at_work = dict.fromkeys(jobs)
        self._first = jobs[0]
        self._joinable = joinable

    def __len__(self) -> int:
        return len(self._at_work)

    @property
    def jobs(self) -> list[Job[T, R]]:
        """Those at work."""
        return list(self._at_work)

    def finish(self, job: Job[T, R], result: R) -> None:
        """Give a job's result to who waits for it; it is no longer at work."""
        del self._at_work[job]
        # A loop that has ended took along who waited.
        with suppress(RuntimeError):
            job.future.get_loop().call_soon_threadsafe(_resolve, job, result)

    def join(self, running: Running, least: int = 1) -> list[Job[T, R]]:
        """Return waiting jobs that are at work from now on too; none if fewer than `least` fit.

        running: the rows that are not done.
        """
        if not self._joinable:
            return []
        joining = self._batcher.take_joining(self._first, running, least)
        self._at_work |= dict.fromkeys(joining)
        return joining


def all_at_once(compute: Callable[[list[T]], list[R]]) -> Callable[[RunningBatch[T, R]], None]:
    """Return what runs a batch by one call with all of its items: one result an item, in order."""

    def run(batch: RunningBatch[T, R]) -> None:
        jobs = batch.jobs
        results = compute([job.work.item for job in jobs])
        for job, result in zip(jobs, results, strict=True):
            batch.finish(job, result)

    return run


class DynamicBatcher(Generic[T, R]):
    """Collects jobs of concurrent callers and runs them in batches, one batch at a time."""

    def __init__(
        self, run: Callable[[RunningBatch[T, R]], None], limits: Limits, joinable: bool = True
    ) -> None:
        """run: called in a worker thread; finishes each job, those that join among them.

        joinable: whether jobs may join the batch that runs, rather than wait for its end.
        """
        self.run = run
        self.limits = limits
        self.joinable = joinable
        self.queue: list[Job[T, R]] = []
        # How many batches had so many rows.
        self.batch_sizes: Counter[int] = Counter()
        self.closed = False
        self._batch: RunningBatch[T, R] | None = None
        # Parts of a batch that failed, the next one last.
        self._put_off: list[list[Job[T, R]]] = []
        self._queue_lock = threading.Lock()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._worker: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()

    @property
    def unfinished(self) -> int:
        """Items that wait or run."""
        at_work = 0 if self._batch is None else len(self._batch)
        return len(self.queue) + at_work + sum(map(len, self._put_off))

    async def submit(self, works: Sequence[Work[T]]) -> list[R]:
        """Queue each and wait for all; the first failure is raised.

        Raises DeadlineExceededError for one that is not done in time.
        """
        if self.closed:
            raise EngineClosedError("the engine is closed")
        loop = asyncio.get_running_loop()
        self._start(loop)
        jobs = [self._job(work, loop) for work in works]
        with self._queue_lock:
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
            with self._queue_lock:
                self.queue = []
            self._put_off = []
            self._arrived = asyncio.Event()
            self._worker = loop.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            await self._gather_more()
            batch = self._take_batch()
            if batch:
                await self._run_jobs(batch)
            if not self.queue:
                self._arrived.clear()

    def _take_batch(self) -> list[Job[T, R]]:
        """Take the next batch from the queue; nothing where nobody waits any more."""
        with self._queue_lock:
            self.queue = [job for job in self.queue if not job.future.done()]
            batch = choose_batch(self.queue, self.limits) if self.queue else []
            self._remove(batch)
        return batch

    def take_joining(self, first: Job[T, R], running: Running, least: int) -> list[Job[T, R]]:
        """Take from the queue those that join the batch that `first` is of (`choose_joining`)."""
        group, loop = first.work.group, first.future.get_loop()
        with self._queue_lock:
            # A batch may outlive the event loop that it was begun for.
            waiting = [
                job for job in self.queue if not job.future.done() and job.future.get_loop() is loop
            ]
            joining = choose_joining(waiting, group, running, self.limits, least)
            self._remove(joining)
        if joining:
            self.batch_sizes[running.rows + len(joining)] += 1
        return joining

    def _remove(self, jobs: Sequence[Job[T, R]]) -> None:
        taken = set(map(id, jobs))
        self.queue = [job for job in self.queue if id(job) not in taken]

    async def _gather_more(self) -> None:
        """Wait a moment while the queue is short of a batch and still growing."""
        waiting = -1
        while waiting < len(self.queue) < self.limits.max_batch_size:
            waiting = len(self.queue)
            await asyncio.sleep(self.limits.gather_seconds)

    async def _run_jobs(self, jobs: list[Job[T, R]]) -> None:
        """Run a batch; where it fails, run its halves, so that one bad job fails alone."""
        self._put_off, joinable = [jobs], self.joinable
        while self._put_off:
            batch = RunningBatch(self, self._put_off.pop(), joinable)
            error = await self._run_part(batch)
            if error is not None:
                self._isolate(batch.jobs, error)
            joinable = False

    def _isolate(self, jobs: list[Job[T, R]], error: Exception) -> None:
        """Put off the halves of jobs that failed together; a job that failed alone has failed."""
        if self.closed:
            error = EngineClosedError("the engine was closed while this request ran")
        if len(jobs) > 1 and not isinstance(error, EngineClosedError):
            logger.warning("a batch of %d failed (%s); running its halves", len(jobs), error)
            half = len(jobs) // 2
            self._put_off += [jobs[half:], jobs[:half]]
            return
        failed = error if isinstance(error, EngineError) else generation_error(error)
        for job in jobs:
            _fail(job, failed)

    async def _run_part(self, batch: RunningBatch[T, R]) -> Exception | None:
        """Run a batch; returns why not all of its jobs have an outcome."""
        loop = asyncio.get_running_loop()
        self.batch_sizes[len(batch)] += 1
        self._batch = batch
        try:
            # What it finishes is resolved before this returns.
            await loop.run_in_executor(self._executor, self.run, batch)
            if len(batch):
                raise RuntimeError("a batch ended without the outcome of each of its requests")
        except Exception as error:
            _let_go(error)
            return error
        finally:
            self._batch = None
        return None

    async def close(self) -> None:
        """Fail what waits, let a running batch end, and free the thread."""
        self.closed = True
        with self._queue_lock:
            waiting, self.queue = self.queue, []
        put_off, self._put_off = self._put_off, []
        for job in itertools.chain(waiting, *put_off):
            _fail(job, EngineClosedError("the engine was closed"))
        await asyncio.to_thread(self._executor.shutdown, wait=True, cancel_futures=True)
        # The batch that was running resolves its futures in the loop's next turns.
        await asyncio.sleep(0)
        if self._worker is not None and not self._worker.done():
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)


def _let_go(error: BaseException) -> None:
    """Clear the frames that an error came through: they hold what was computed, such as a cache."""
    each: BaseException | None = error
    while each is not None:
        traceback.clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__


def _expire(job: Job[T, R]) -> None:
    _fail(job, DeadlineExceededError(job.work.deadline_seconds))


def _fail(job: Job[T, R], error: EngineError) -> None:
    if not job.future.done():
        job.future.set_exception(error)


def _resolve(job: Job[T, R], result: R) -> None:
    if not job.future.done():
        job.future.set_result(result)
