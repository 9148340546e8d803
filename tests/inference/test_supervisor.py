"""What becomes of work when its process dies, stands still or is closed."""

import asyncio
import threading

import pytest

from inference.engines.contract import (
    EngineClosedError,
    EngineDiedError,
    EngineError,
    InvalidRequestError,
)
from inference.engines.vllm.supervisor import Supervisor


class FakeProcess:
    """Answers until it is killed; `stuck` never steps."""

    def __init__(self) -> None:
        self.dead = asyncio.Event()
        self.released = False

    def alive(self) -> bool:
        return not self.dead.is_set()

    def kill(self) -> None:
        self.dead.set()

    def release(self) -> None:
        self.released = True

    def seconds_since_progress(self) -> float | None:
        return None

    async def die(self) -> None:
        """Work in the middle of which the process goes."""
        self.kill()
        raise RuntimeError("gone")

    async def until_dead(self) -> None:
        await self.dead.wait()
        raise RuntimeError("gone")

    async def answer(self) -> str:
        return "done"


class SlowStarts:
    """Starts processes, each after the first only when the test lets it be ready."""

    def __init__(self) -> None:
        self.started: list[FakeProcess] = []
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self) -> FakeProcess:
        if self.started:
            self.begun.set()
            assert self.may_end.wait(300)
        self.started.append(FakeProcess())
        return self.started[-1]

    async def until_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 300)


async def test_work_on_a_dead_process_fails_and_the_next_finds_another() -> None:
    supervisor = Supervisor(FakeProcess, max_restarts=1)
    first = supervisor.process
    with pytest.raises(EngineDiedError, match="gone"):
        await supervisor.run(lambda process: process.die())
    assert await supervisor.run(lambda process: process.answer()) == "done"
    assert first.released
    assert supervisor.process is not first
    assert supervisor.restarts == 1


async def test_it_is_not_started_for_ever() -> None:
    supervisor = Supervisor(FakeProcess, max_restarts=2)
    for _ in range(3):
        with pytest.raises(EngineDiedError, match="ended while"):
            await supervisor.run(lambda process: process.die())
    with pytest.raises(EngineDiedError, match="died 3 times"):
        await supervisor.run(lambda process: process.answer())


async def test_one_new_process_for_all_who_wait() -> None:
    supervisor = Supervisor(FakeProcess, max_restarts=5)
    supervisor.process.kill()
    answers = await asyncio.gather(*(supervisor.run(lambda p: p.answer()) for _ in range(8)))
    assert answers == ["done"] * 8
    assert supervisor.restarts == 1


async def test_a_standstill_is_ended() -> None:
    supervisor = Supervisor(FakeProcess, stall_seconds=0.2)
    with pytest.raises(EngineDiedError):
        await asyncio.wait_for(supervisor.run(lambda process: process.until_dead()), timeout=120)
    assert await supervisor.run(lambda process: process.answer()) == "done"


async def test_a_refused_request_is_not_a_death() -> None:
    supervisor = Supervisor(FakeProcess)

    async def refuse(process: FakeProcess) -> None:
        raise InvalidRequestError("too long")

    with pytest.raises(InvalidRequestError):
        await supervisor.run(refuse)
    assert supervisor.restarts == 0


async def test_closing_ends_what_runs() -> None:
    supervisor = Supervisor(FakeProcess)
    running = asyncio.create_task(supervisor.run(lambda process: process.until_dead()))
    await asyncio.sleep(0.01)
    await supervisor.close()
    with pytest.raises(EngineClosedError):
        await running
    with pytest.raises(EngineClosedError):
        await supervisor.run(lambda process: process.answer())
    assert supervisor.process.released


async def test_a_cancelled_caller_is_cancelled() -> None:
    supervisor = Supervisor(FakeProcess)
    running = asyncio.create_task(supervisor.run(lambda process: process.until_dead()))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert supervisor.running == 0


async def test_a_request_that_is_cancelled_leaves_its_restart_to_the_next() -> None:
    starts = SlowStarts()
    supervisor = Supervisor(starts, max_restarts=1)
    supervisor.process.kill()
    for _ in range(3):
        waiting = asyncio.create_task(supervisor.run(lambda process: process.answer()))
        await starts.until_begun()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    starts.may_end.set()
    assert await supervisor.run(lambda process: process.answer()) == "done"
    assert [process.released for process in starts.started] == [True, False]
    assert supervisor.restarts == 1


async def closed_during_a_start() -> tuple[SlowStarts, asyncio.Task[str], asyncio.Task[None]]:
    """A supervisor's starts, a request that waits for the second of them, and the close."""
    starts = SlowStarts()
    supervisor = Supervisor(starts)
    supervisor.process.kill()
    waiting = asyncio.create_task(supervisor.run(lambda process: process.answer()))
    await starts.until_begun()
    closing = asyncio.create_task(supervisor.close())
    await asyncio.sleep(0.01)
    return starts, waiting, closing


async def test_closing_releases_what_is_being_started() -> None:
    starts, waiting, closing = await closed_during_a_start()
    assert not closing.done()
    starts.may_end.set()
    await closing
    assert len(starts.started) == 2 and all(process.released for process in starts.started)
    with pytest.raises(EngineClosedError):
        await waiting


async def test_a_close_that_is_cancelled_leaves_nothing_started() -> None:
    starts, waiting, closing = await closed_during_a_start()
    closing.cancel()
    starts.may_end.set()
    with pytest.raises(EngineClosedError):
        await waiting
    assert all(process.released for process in starts.started)


async def test_who_waits_for_a_start_that_fails_hears_why() -> None:
    first = FakeProcess()

    def start() -> FakeProcess:
        if not first.dead.is_set():
            return first
        raise EngineError("no memory is left")

    supervisor = Supervisor(start, max_restarts=2)
    first.kill()
    for _ in range(2):
        with pytest.raises(EngineError, match="no memory"):
            await supervisor.run(lambda process: process.answer())
    with pytest.raises(EngineDiedError, match="died 3 times"):
        await supervisor.run(lambda process: process.answer())
