"""Which of the requests that wait run together: in the next batch, or beside those at work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
# A job that lost this often to a full batch of others is next, so that none starves.
MOST_TIMES_PASSED_OVER = 2
# A prompt may widen a running batch by so much: all rows are computed as wide as the longest.
MOST_WIDENING = 4 / 3


@dataclass(frozen=True)
class Limits:
    """A batch's most rows, most tokens (rows x longest row) and how long to wait for company."""

    max_batch_size: int = 32
    max_batch_tokens: int = 16384
    gather_seconds: float = 0.006


@dataclass(frozen=True, eq=False)
class Work(Generic[T]):
    """One item to run.

    group: only items of one group share a batch. length: prompt and new tokens, of which
    new_tokens: at most. deadline_seconds: from its submission. on_settled: called once nobody waits
        for its outcome any more, be it there, too late or not wanted; a running batch may let the
        item go.
    """

    item: T
    group: Hashable
    length: int
    new_tokens: int = 0
    deadline_seconds: float | None = None
    on_settled: Callable[[], None] | None = None


@dataclass(eq=False)
class Job(Generic[T, R]):
    """One item in the queue and who waits for it."""

    work: Work[T]
    future: asyncio.Future[R]
    passed_over: float = 0.0

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


@dataclass(frozen=True)
class Running:
    """A batch at work, as far as others may join it.

    rows: those not done. columns: tokens of the longest so far. new_tokens: most that any of them
    may still write.
    """

    rows: int
    columns: int
    new_tokens: int

    def with_one(self, work: Work[T], limits: Limits) -> Running | None:
        """Return the batch with one more; None where it does not fit in."""
        prompt = work.length - work.new_tokens
        if self.rows >= limits.max_batch_size or prompt > MOST_WIDENING * self.columns:
            return None
        columns, new_tokens = max(self.columns, prompt), max(self.new_tokens, work.new_tokens)
        if (self.rows + 1) * (columns + new_tokens) > limits.max_batch_tokens:
            return None
        return Running(self.rows + 1, columns, new_tokens)


def choose_joining(
    queue: Sequence[Job[T, R]], group: Hashable, running: Running, limits: Limits, least: int = 1
) -> list[Job[T, R]]:
    """Return the jobs of a queue in order of arrival that join a running batch of `group`.

    The oldest that fit in; none where they are fewer than `least`. They pass over an older job
    that does not fit only where they fill the batch, and no oftener than a full batch
    `MOST_TIMES_PASSED_OVER` times.
    """
    joining: list[Job[T, R]] = []
    ahead = 0
    oldest: Job[T, R] | None = None
    for job in queue:
        with_it = running.with_one(job.work, limits) if job.work.group == group else None
        if with_it is not None:
            joining.append(job)
            running = with_it
        elif oldest is None:
            oldest, ahead = job, len(joining)
        if running.rows >= limits.max_batch_size:
            break
    is_full = running.rows >= limits.max_batch_size
    if oldest is not None and (not is_full or oldest.passed_over >= MOST_TIMES_PASSED_OVER):
        del joining[ahead:]
    if len(joining) < least:
        return []
    if oldest is not None:
        oldest.passed_over += (len(joining) - ahead) / limits.max_batch_size
    return joining
