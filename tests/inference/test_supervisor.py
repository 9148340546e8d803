"""What becomes of work when its process dies, stands still or is closed."""

import asyncio

import pytest

from inference.engines.contract import EngineClosedError, EngineDiedError, InvalidRequestError
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
