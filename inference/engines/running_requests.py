"""Requests that an engine sends on, each with an outcome of its own, and one that probes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

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
