"""Keeps an engine's process at work: notices its death and its standstill, starts it anew."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from inference.engines.contract import EngineClosedError, EngineDiedError
from inference.engines.vllm.process import VLLMProcess

logger = logging.getLogger(__name__)

T = TypeVar("T")
WATCH_SECONDS = 1.0


class Supervisor:
    """Runs work on a process that it replaces when it dies or stands still.

    What ran on a dead process fails with EngineDiedError and is not repeated, since it may be what
    killed it; what comes later finds a new process, `max_restarts` times.
    """

    def __init__(
        self, start: Callable[[], VLLMProcess], max_restarts: int = 2, stall_seconds: float = 300.0
    ) -> None:
        """Start the first process; `start` returns once it is ready and may take its time."""
        self.process: VLLMProcess = start()
        self.restarts = 0
        self.running = 0
        self._start = start
        self._max_restarts = max_restarts
        self._stall_seconds = stall_seconds
        # Another process on its way to the place of a dead one; it belongs to no request.
        self._replacement: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[Any]] = set()
        self._closed = False
        self._busy_since = 0.0

    async def run(self, work: Callable[[VLLMProcess], Awaitable[T]]) -> T:
        """Do some work on a process that lives.

        Raises EngineDiedError: the process died under it, or too often before; EngineClosedError.
        """
        process = await self._living()
        if not self.running:
            self._busy_since = time.monotonic()
        self.running += 1
        self._watch()
        task = asyncio.ensure_future(work(process))
        self._tasks.add(task)
        try:
            return await task
        except asyncio.CancelledError as error:
            if self._closed:
                raise EngineClosedError("the engine was closed while this request ran") from error
            raise
        except Exception as error:
            if not process.alive():
                raise EngineDiedError(
                    f"the engine's process ended while it ran this request ({error})"
                ) from error
            raise
        finally:
            self._tasks.discard(task)
            self.running -= 1

    def seconds_since_progress(self) -> float | None:
        """Of work at hand: since the last step, or since the work came."""
        since = self.process.seconds_since_progress()
        if not self.running:
            return since
        waiting = time.monotonic() - self._busy_since
        return waiting if since is None else min(since, waiting)

    async def close(self) -> None:
        """End the process and what it runs; one that is being started ends as soon as it is up."""
        self._closed = True
        if self._watcher is not None:
            self._watcher.cancel()
        running = list(self._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._replacement is not None and not self._replacement.done():
            await asyncio.wait([self._replacement])
        await asyncio.to_thread(self.process.release)

    async def _living(self) -> VLLMProcess:
        self._refuse_when_closed()
        if self._replacement is None or self._replacement.done():
            if self.process.alive():
                return self.process
            self._replacement = self._replace()
        # Whoever is cancelled here leaves it to all who come later.
        await asyncio.shield(self._replacement)
        self._refuse_when_closed()
        return self.process

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise EngineClosedError("the engine is closed")

    def _replace(self) -> asyncio.Task[None]:
        """Begin to start another process in the dead one's place.

        Raises EngineDiedError: too many have died.
        """
        if self.restarts >= self._max_restarts:
            raise EngineDiedError(
                f"the engine's process died {self.restarts + 1} times and is not started again; "
                "look at its log for the cause"
            )
        self.restarts += 1
        logger.warning(
            "the engine's process died; start %d of at most %d", self.restarts, self._max_restarts
        )
        return asyncio.create_task(asyncio.to_thread(self._start_another))

    def _start_another(self) -> None:
        """Swap the processes in a thread, whose work no cancelling takes away from it."""
        self.process.release()
        if self._closed:
            return
        process = self._start()
        if self._closed:
            process.release()
        else:
            self.process = process

    def _watch(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.get_running_loop().create_task(self._end_standstill())

    async def _end_standstill(self) -> None:
        """While there is work, end a process that takes no step."""
        while self.running:
            await asyncio.sleep(min(WATCH_SECONDS, self._stall_seconds / 4))
            since = self.seconds_since_progress()
            if self.running and since is not None and since > self._stall_seconds:
                logger.warning("the engine took no step for %.0f seconds; ending it", since)
                self.process.kill()
                return
