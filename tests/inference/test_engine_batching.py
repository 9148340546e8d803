"""How requests are put together into batches."""

import asyncio
import threading
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engines.batch_choice import (
    MOST_TIMES_PASSED_OVER,
    Job,
    Limits,
    Running,
    Work,
    choose_batch,
    choose_joining,
    similar_lengths,
)
from inference.engines.batching import DynamicBatcher, RunningBatch, all_at_once
from inference.engines.contract import EngineClosedError, GenerationError
from inference.engines.transformers.decoding import prefill_groups


def jobs_of(*specs: tuple[str, int] | tuple[str, int, int]) -> list[Job[int, int]]:
    """Jobs of a group, a length and the new tokens of it."""
    loop = asyncio.new_event_loop()
    try:
        return [Job(Work(n, *spec), loop.create_future()) for n, spec in enumerate(specs)]
    finally:
        loop.close()


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 200)), min_size=1, max_size=40),
    st.integers(1, 10),
    st.integers(100, 3000),
)
def test_a_batch_keeps_its_limits_and_the_oldest_job(
    sizes: list[tuple[int, int]], most_rows: int, most_tokens: int
) -> None:
    jobs = jobs_of(*(("a", prompt + new_tokens, new_tokens) for prompt, new_tokens in sizes))
    batch = similar_lengths(jobs, Limits(most_rows, most_tokens))
    assert jobs[0] in batch
    assert len(batch) <= most_rows
    # As wide as the longest prompt, and as long as the longest answer, of another row perhaps.
    width = max(job.work.prompt_tokens for job in batch)
    assert len(batch) == 1 or (
        len(batch) * (width + max(job.work.new_tokens for job in batch)) <= most_tokens
    )
    # Contiguous by length: nothing left out is strictly between two that are in.
    inside = sorted(job.length for job in batch)
    outside = [job.length for job in jobs if job not in batch]
    assert not any(inside[0] < length < inside[-1] for length in outside)


def test_full_groups_go_first_but_none_starves() -> None:
    limits = Limits(max_batch_size=3)
    queue = jobs_of(("few", 5), *[("many", 5)] * 9)
    chosen = []
    while queue:
        batch = choose_batch(queue, limits)
        chosen.append({str(job.work.group) for job in batch}.pop())
        queue = [job for job in queue if job not in batch]
    assert chosen == ["many", "many", "few", "many"]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 60), st.integers(1, 40)), max_size=30),
    st.integers(1, 8),
    st.integers(50, 900),
    st.integers(1, 3),
)
def test_those_that_join_keep_the_limits_and_the_order(
    specs: list[tuple[str, int, int]], most_rows: int, most_tokens: int, least: int
) -> None:
    queue = jobs_of(*((group, prompt + new, new) for group, prompt, new in specs))
    running, limits = Running(2, 30, 20), Limits(most_rows, most_tokens)
    joining = choose_joining(queue, "a", running, limits, least)
    numbers = [job.work.item for job in joining]
    assert numbers == sorted(numbers)
    assert all(job.work.group == "a" for job in joining)
    assert not joining or len(joining) >= least
    if not joining:
        return
    rows = running.rows + len(joining)
    columns = max(30, *(job.work.prompt_tokens for job in joining))
    new_tokens = max(20, *(job.work.new_tokens for job in joining))
    assert rows <= most_rows
    assert rows * (columns + new_tokens) <= most_tokens
    assert columns <= 40  # a third more than the running batch had
    # Others are passed over by a batch that they fill alone.
    older = [job for job in queue[: numbers[-1]] if job not in joining]
    assert rows == most_rows or not older


def test_a_stream_of_others_does_not_keep_a_job_waiting() -> None:
    limits, joined = Limits(4, 1000), 0
    queue = jobs_of(("b", 5), *[("a", 5)] * 99)
    while joining := choose_joining(queue, "a", Running(2, 5, 0), limits):
        joined += len(joining)
        queue = [job for job in queue if job not in joining]
    assert joined == MOST_TIMES_PASSED_OVER * limits.max_batch_size
    assert not choose_joining(queue[:2], "a", Running(2, 5, 0), limits)


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=60).map(sorted), st.integers(3000, 9000))
def test_prompts_are_read_in_order_each_once_with_little_padding(
    lengths: list[int], most_tokens: int
) -> None:
    groups = prefill_groups(lengths, most_tokens)
    assert [row for group in groups for row in group] == list(range(len(lengths)))
    real = sum(lengths)
    padded = sum(len(group) * lengths[group[-1]] for group in groups)
    assert real >= 0.75 * padded
    assert all(len(group) * lengths[group[-1]] <= most_tokens for group in groups)


async def test_jobs_that_arrive_while_a_batch_runs_make_the_next_one() -> None:
    sizes: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def double(items: list[int]) -> list[int]:
        sizes.append(len(items))
        begun.set()
        assert go_on.wait(300)
        return [2 * item for item in items]

    batcher: DynamicBatcher[int, int] = DynamicBatcher(all_at_once(double), Limits(8, 1000))
    first = asyncio.create_task(batcher.submit([Work(0, "g", 1)]))
    await asyncio.to_thread(begun.wait, 300)
    calls = [asyncio.create_task(batcher.submit([Work(n, "g", 1)])) for n in range(1, 9)]
    await asyncio.sleep(0)  # each is begun and waits in the queue
    go_on.set()
    rest = await asyncio.gather(*calls)
    assert await first == [0]
    assert rest == [[2 * n] for n in range(1, 9)]
    assert sizes == [1, 8]
    await batcher.close()


async def test_one_bad_job_fails_alone_with_its_reason() -> None:
    def invert(items: list[int]) -> list[int]:
        return [100 // item for item in items]

    batcher: DynamicBatcher[int, int] = DynamicBatcher(all_at_once(invert), Limits(8, 1000))
    calls = [batcher.submit([Work(item, "g", 1)]) for item in (1, 2, 0, 4, 5)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [r for r in results if isinstance(r, list)] == [[100], [50], [25], [20]]
    assert isinstance(results[2], GenerationError)
    assert "ZeroDivisionError" in str(results[2])
    await batcher.close()
    with pytest.raises(EngineClosedError):
        await batcher.submit([Work(1, "g", 1)])


class Steps:
    """A run whose rows take as many steps as their items say; the test lets it go on."""

    def __init__(self) -> None:
        self.may_step = threading.Semaphore(0)
        self.stepped = threading.Semaphore(0)
        self.at_work: list[list[int]] = []

    def __call__(self, batch: RunningBatch[int, int]) -> None:
        left = {job: job.work.item for job in batch.jobs}
        while left:
            assert self.may_step.acquire(timeout=300)
            left |= {job: job.work.item for job in batch.join(Running(len(left), 1, 1))}
            self.at_work.append([job.work.item for job in left])
            for job in [job for job, steps in left.items() if steps == 1]:
                batch.finish(job, job.work.item)
            left = {job: steps - 1 for job, steps in left.items() if steps > 1}
            self.stepped.release()

    async def step(self) -> None:
        self.may_step.release()
        assert await asyncio.to_thread(self.stepped.acquire, timeout=300)


async def test_a_job_joins_those_at_work_and_none_waits_for_the_longest() -> None:
    run = Steps()
    batcher: DynamicBatcher[int, int] = DynamicBatcher(run, Limits(8, 1000))
    long = asyncio.create_task(batcher.submit([Work(4, "g", 1)]))
    await asyncio.sleep(0)
    await run.step()
    short = asyncio.create_task(batcher.submit([Work(1, "g", 1)]))
    other = asyncio.create_task(batcher.submit([Work(2, "other", 1)]))
    await asyncio.sleep(0)
    await run.step()
    assert await short == [1]
    assert batcher.unfinished == 2
    assert not long.done()
    for _ in range(4):
        await run.step()
    assert (await long, await other) == ([4], [2])
    assert run.at_work == [[4], [4, 1], [4], [4], [2], [2]]
    await batcher.close()


async def test_where_a_batch_fails_what_it_finished_stays() -> None:
    def fail(batch: RunningBatch[int, int]) -> None:
        for job in batch.jobs:
            batch.finish(job, 1 // job.work.item)

    batcher: DynamicBatcher[int, int] = DynamicBatcher(fail, Limits(8, 1000))
    calls = [batcher.submit([Work(item, "g", 1)]) for item in (1, 0, 1)]
    first, second, third = await asyncio.gather(*calls, return_exceptions=True)
    assert (first, third) == ([1], [1])
    assert isinstance(second, GenerationError)
    # Of three, of the two that were left, and of each alone.
    assert batcher.batch_sizes == {3: 1, 1: 2}
    await batcher.close()


class Computed:
    """Stands for a batch's cache."""


async def test_halves_run_without_what_the_failed_batch_computed() -> None:
    alive: list[weakref.ref[Computed]] = []
    held, unfinished = [], []

    def compute(batch: RunningBatch[int, int]) -> int:
        cache = Computed()
        held.append(sum(reference() is not None for reference in alive))
        unfinished.append(batcher.unfinished)
        alive.append(weakref.ref(cache))
        return 1 // (len(batch) == 1)

    def fail(batch: RunningBatch[int, int]) -> None:
        try:
            compute(batch)
        except ZeroDivisionError as error:
            raise RuntimeError("too much") from error
        batch.finish(batch.jobs[0], 0)

    batcher: DynamicBatcher[int, int] = DynamicBatcher(fail, Limits(8, 1000))
    assert await asyncio.gather(*(batcher.submit([Work(0, "g", 1)]) for _ in range(4))) == [[0]] * 4
    assert held == [0] * 7
    # What waits for its half counts as long as it waits.
    assert unfinished == [4, 4, 4, 3, 2, 2, 1]
    assert not batcher.unfinished
    await batcher.close()


async def test_what_is_put_off_when_the_engine_closes_says_so() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def fail(batch: RunningBatch[int, int]) -> None:
        if len(batch) < 4:
            begun.set()
            assert go_on.wait(300)
        raise RuntimeError("too much")

    batcher: DynamicBatcher[int, int] = DynamicBatcher(fail, Limits(8, 1000))
    calls = [asyncio.create_task(batcher.submit([Work(n, "g", 1)])) for n in range(4)]
    await asyncio.to_thread(begun.wait, 300)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0.01)
    go_on.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    await closing
    assert {type(result) for result in results} == {EngineClosedError}
    assert not batcher.unfinished


async def test_a_job_that_a_run_forgets_fails() -> None:
    def forget(batch: RunningBatch[int, int]) -> None:
        batch.finish(batch.jobs[0], 0)

    batcher: DynamicBatcher[int, int] = DynamicBatcher(forget, Limits(8, 1000))
    assert await batcher.submit([Work(1, "g", 1)]) == [0]

    def finish_none(batch: RunningBatch[int, int]) -> None:
        pass

    batcher.run = finish_none
    with pytest.raises(GenerationError, match="without the outcome"):
        await batcher.submit([Work(1, "g", 1)])
    await batcher.close()


def test_a_batch_that_outlives_its_event_loop_takes_in_none_of_the_next() -> None:
    run = Steps()
    batcher: DynamicBatcher[int, int] = DynamicBatcher(run, Limits(8, 1000))

    async def begin() -> None:
        task = asyncio.create_task(batcher.submit([Work(3, "g", 1)]))
        await asyncio.sleep(0)
        await run.step()
        task.cancel()

    async def go_on() -> list[int]:
        task = asyncio.create_task(batcher.submit([Work(1, "g", 1)]))
        await asyncio.sleep(0)
        for _ in range(3):
            await run.step()
        return await task

    asyncio.run(begin())
    assert asyncio.run(go_on()) == [1]
    assert run.at_work == [[3], [3], [3], [1]]
