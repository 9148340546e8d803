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
    """A batch's most rows, most tokens and how long to wait for company.

    max_batch_tokens: rows times the longest prompt and the most new tokens of any, which may be two
        rows': so much a batch comes to where each writes all that it may.
    """

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

    @property
    def prompt_tokens(self) -> int:
        """Tokens that are read."""
        return self.length - self.new_tokens


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
    batch = Running.of(jobs[0].work)
    while True:
        fitting = {}
        for place in (low - 1, high + 1):
            if 0 <= place < len(order) and (grown := batch.with_row(order[place].work, limits)):
                nearest = order[low if place < low else high]
                fitting[place] = (abs(order[place].length - nearest.length), grown)
        if not fitting:
            break
        place = min(fitting, key=lambda place: fitting[place][0])
        low, high, batch = min(low, place), max(high, place), fitting[place][1]
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

    @classmethod
    def of(cls, work: Work[T]) -> Running:
        """Return a batch of one."""
        return cls(1, work.prompt_tokens, work.new_tokens)

    def with_row(self, work: Work[T], limits: Limits) -> Running | None:
        """Return the batch with one more; None where the limits have no room for it."""
        columns = max(self.columns, work.prompt_tokens)
        new_tokens = max(self.new_tokens, work.new_tokens)
        if self.rows >= limits.max_batch_size:
            return None
        if (self.rows + 1) * (columns + new_tokens) > limits.max_batch_tokens:
            return None
        return Running(self.rows + 1, columns, new_tokens)

    def joined_by(self, work: Work[T], limits: Limits) -> Running | None:
        """Return the batch at work with one more; None where it widens the others too much."""
        if work.prompt_tokens > MOST_WIDENING * self.columns:
            return None
        return self.with_row(work, limits)


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
        with_it = running.joined_by(job.work, limits) if job.work.group == group else None
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
