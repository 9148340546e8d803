"""Many engines as one: a pool of actors on a Ray cluster, each one of our engines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from inference.engines.component_loader import first_backbone
from inference.engines.contract import (
    Completion,
    EngineDiedError,
    EngineError,
    EngineOptions,
    Health,
    Request,
)
from inference.engines.ray.actor import Build, NotOpen
from inference.engines.ray.dispatch import (
    MOST_DEATHS_ALONE,
    Dispatcher,
    Seat,
    Ticket,
    prefix_blocks,
)
from inference.engines.ray.pool import Pool, line_of, value_of
from inference.engines.ray.transport import Failure, Listener, to_send
from inference.engines.running_requests import PROBE_SECONDS, RunningRequests, completions_of
from models.files.backbone import load_tokenizer
from models.files.checkpoint import read_component_config
from models.processors.passages import text_ids

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 10.0


class RayEngine:
    """A pool of engines of one kind, placed and started again by Ray.

    A request goes to an engine that holds the beginning of its prompt, among those about as free
    as the freest. Where an engine dies, its requests are run again on others; one that was alone on
    `MOST_DEATHS_ALONE` engines as they died is given up. Ray's own retries (`max_task_retries`) are
    for starting alone: they would go to the same engine, and count a death against all who ran
    there.
    """

    def __init__(
        self,
        build: Build,
        options: EngineOptions,
        backbone: str | None = None,
        adapters: Mapping[str, str | Path] | None = None,
    ) -> None:
        """Start the engines; returns once all are ready.

        Args:
            build: opens one engine; `inference.opening.engine.build_engine`.
            options: `engines` many of the kind `ray_engine`, at `ray_address`.
            backbone: as in every engine; a folder is sent to nodes that do not have it.
            adapters: component folders by the name that requests give; sent likewise.

        Raises ClusterError: no cluster, another version there, or no room for the engines; what an
        engine raises that does not open.
        """
        folders = {name: Path(folder) for name, folder in (adapters or {}).items()}
        for folder in folders.values():
            read_component_config(folder)
        backbone = backbone or first_backbone(folders)
        self.tokenizer = load_tokenizer(backbone)
        self._requests = RunningRequests()
        self._watchers: list[asyncio.Task[None]] = []
        self._pool = Pool(build, options, backbone, folders)
        seats = [Seat(n, self._pool.capacity) for n in range(len(self._pool.actors))]
        self._dispatcher = Dispatcher(seats)

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion a request, in order; raises the first failure once all are done."""
        self._requests.refuse_when_closed()
        self._watch()
        return await completions_of(
            self._requests.settle(request, self._answer) for request in requests
        )

    async def health(self) -> Health:
        """Return whether any engine makes progress or answers; the reason names the others."""
        seats = self._dispatcher.seats
        restarts = sum(seat.restarts for seat in seats)
        if self._requests.closed or not seats:
            reason = "the engine is closed" if self._requests.closed else "no engine is left"
            return Health(False, reason, len(self._requests), None, restarts)
        states = await asyncio.gather(*map(self._health_of, seats))
        well = [state for state in states if state.ok]
        reasons = [f"engine {n}: {s.reason}" for n, s in enumerate(states) if not s.ok]
        since = [s.seconds_since_progress for s in states if s.seconds_since_progress is not None]
        return Health(
            bool(well), "; ".join(reasons), len(self._requests), min(since, default=None), restarts
        )

    async def close(self) -> None:
        """End the engines and this process's use of the cluster."""
        if self._requests.closed:
            return
        watchers = [task for task in self._watchers if not task.done()]
        for task in watchers:
            task.cancel()
        await self._requests.close()
        await asyncio.gather(*watchers, return_exceptions=True)
        closing = [value_of(actor.close.remote()) for actor in self._pool.actors]
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await asyncio.gather(*closing, return_exceptions=True)
        await asyncio.to_thread(self._pool.end)

    def count_tokens(self, text: str) -> int:
        """Return the tokens of `text` under the backbone's tokenizer, without special tokens."""
        return len(text_ids(self.tokenizer, text))

    async def _answer(self, request: Request) -> Completion:
        """Ask one engine after another until one lives to answer.

        Raises EngineDiedError: the request was alone where engines died; the engine's own errors.
        """
        from ray.exceptions import ObjectLostError, RayActorError

        ticket = Ticket(prefix_blocks(request))
        listener = None if request.on_text is None else Listener(request.on_text)
        sent = to_send(request)
        while ticket.deaths_alone < MOST_DEATHS_ALONE:
            seat = await self._dispatcher.take(ticket)
            life = seat.restarts
            try:
                outcome = await self._ask(self._pool.actors[seat.number], sent, listener)
            except (RayActorError, ObjectLostError):
                if seat.restarts == life:
                    self._dispatcher.died(seat)
                continue
            finally:
                self._dispatcher.leave(seat, ticket)
            if isinstance(outcome, NotOpen):
                # It died before it was sent this request, and nobody had noticed yet.
                if seat.restarts == life:
                    self._dispatcher.died(seat)
                continue
            if isinstance(outcome, Failure):
                raise outcome.error()
            return outcome
        raise EngineDiedError(
            f"{ticket.deaths} engines died as they ran this request, the last {MOST_DEATHS_ALONE} "
            "of them with nothing else to do: it is given up"
        )

    async def _ask(
        self, actor: Any, request: Request, listener: Listener | None
    ) -> Completion | Failure | NotOpen:
        import ray

        if listener is None:
            answer = actor.answer.remote(request)
            try:
                return await value_of(answer)
            except asyncio.CancelledError:
                ray.cancel(answer)
                raise
        listener.begin()
        pieces = actor.write.options(num_returns="streaming").remote(request)
        try:
            async for reference in pieces:
                piece = await reference
                if not isinstance(piece, str):
                    return piece
                listener.hear(piece)
        except BaseException:
            ray.cancel(pieces)
            raise
        raise EngineError("an engine ended a text without its end")

    def _watch(self) -> None:
        """Watch over the actors in this event loop, anew when an earlier one took that along."""
        loop = asyncio.get_running_loop()
        if self._watchers and self._watchers[0].get_loop() is loop:
            return
        self._dispatcher.restart()
        self._requests.forget()
        self._watchers = [loop.create_task(self._keep(seat)) for seat in self._dispatcher.seats]

    async def _keep(self, seat: Seat) -> None:
        """Notice the deaths of an actor and open its engine anew, until it cannot be."""
        while True:
            watched = asyncio.ensure_future(value_of(self._pool.actors[seat.number].watch.remote()))
            lost = asyncio.ensure_future(seat.lost.wait())
            try:
                await asyncio.wait({watched, lost}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                watched.cancel()
                lost.cancel()
                await asyncio.gather(watched, lost, return_exceptions=True)
            self._dispatcher.died(seat)
            logger.warning("engine %d died and is started again", seat.number)
            try:
                await self._pool.reopen(self._pool.actors[seat.number])
            except EngineError as error:
                logger.error("engine %d is given up: %s", seat.number, error)
                self._dispatcher.remove(seat, error)
                return
            self._dispatcher.opened(seat)

    async def _health_of(self, seat: Seat) -> Health:
        if not seat.is_open:
            return Health(False, "it is started again")
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                return await value_of(self._pool.actors[seat.number].health.remote())
        except TimeoutError:
            return Health(False, f"no answer in {PROBE_SECONDS:.0f} seconds")
        except Exception as error:
            return Health(False, line_of(error))
