"""How requests are put together into batches."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engines.batching import (
    DynamicBatcher,
    Job,
    Limits,
    Work,
    choose_batch,
    similar_lengths,
)
from inference.engines.contract import EngineClosedError, GenerationError
from inference.engines.transformers.decoding import prefill_groups


def jobs_of(*specs: tuple[str, int]) -> list[Job[int, int]]:
    loop = asyncio.new_event_loop()
    try:
        return [
            Job(Work(n, group, size), loop.create_future()) for n, (group, size) in enumerate(specs)
        ]
    finally:
        loop.close()


@given(
    st.lists(st.integers(1, 500), min_size=1, max_size=40),
    st.integers(1, 10),
    st.integers(100, 3000),
)
def test_a_batch_keeps_its_limits_and_the_oldest_job(
    lengths: list[int], most_rows: int, most_tokens: int
) -> None:
    jobs = jobs_of(*(("a", length) for length in lengths))
    batch = similar_lengths(jobs, Limits(most_rows, most_tokens))
    assert jobs[0] in batch
    assert len(batch) <= most_rows
    assert len(batch) == 1 or len(batch) * max(job.length for job in batch) <= most_tokens
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

    batcher: DynamicBatcher[int, int] = DynamicBatcher(double, Limits(8, 1000))
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

    batcher: DynamicBatcher[int, int] = DynamicBatcher(invert, Limits(8, 1000))
    calls = [batcher.submit([Work(item, "g", 1)]) for item in (1, 2, 0, 4, 5)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [r for r in results if isinstance(r, list)] == [[100], [50], [25], [20]]
    assert isinstance(results[2], GenerationError)
    assert "ZeroDivisionError" in str(results[2])
    await batcher.close()
    with pytest.raises(EngineClosedError):
        await batcher.submit([Work(1, "g", 1)])
