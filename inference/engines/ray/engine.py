"""Many engines as one: a pool of actors on a Ray cluster, each one of our engines."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.errors import UserError
from inference.engines.batching import PROBE_SECONDS, completions_of
from inference.engines.component_loader import first_backbone
from inference.engines.contract import (
    Completion,
    DeadlineExceededError,
    EngineClosedError,
    EngineDiedError,
    EngineError,
    EngineOptions,
    Health,
    Request,
    generation_error,
)
from inference.engines.ray.actor import Build, EngineActor, Lacking, Opened, Plan, Sent
from inference.engines.ray.cluster import ClusterError, connect, share_of
from inference.engines.ray.dispatch import (
    MOST_DEATHS_ALONE,
    Dispatcher,
    Seat,
    Ticket,
    prefix_blocks,
)
from inference.engines.ray.folders import Folder
from inference.engines.ray.transport import Failure, Listener, to_send
from inference.engines.served import text_ids
from models.files.backbone import SMOLLM2, load_tokenizer
from models.files.checkpoint import package_versions, read_component_config

logger = logging.getLogger(__name__)

# While one batch runs the next one is there, and long enough to be sorted by length.
BATCHES_AT_ONCE = 2
# Of an actor beside its requests: `watch`, `health`, `close` and those that were cancelled.
BESIDE = 100
MOST_RESTARTS = 100
MOST_DEATHS_OPENING = 3
PLACING_SECONDS = 300.0
CLOSING_SECONDS = 10.0
PAUSE_SECONDS = 0.5


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
        self._sent: dict[str, list[tuple[str, Any]]] = {}
        self._closed = False
        self._running: set[asyncio.Task[Any]] = set()
        self._watchers: list[asyncio.Task[None]] = []
        self._actors: list[Any] = []
        self._connection = connect(options.ray_address)
        try:
            self._start(options)
            self._plan = Plan(
                build,
                replace(options, kind=options.ray_engine, engines=1),
                Folder.read(backbone) if _is_folder(backbone) else backbone,
                {name: Folder.read(folder) for name, folder in folders.items()},
            )
            self._opened = self._open_all()
        except BaseException:
            self._end_actors()
            self._connection.leave()
            raise
        self._warn_of_versions()
        capacity = BATCHES_AT_ONCE * options.max_batch_size
        self._dispatcher = Dispatcher([Seat(n, capacity) for n in range(len(self._actors))])

    def _start(self, options: EngineOptions) -> None:
        """Start the actors; each has its place then and runs."""
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        has_gpus = any(node.get("GPU") for node in nodes)
        gpus = float(options.tensor_parallel_size) if has_gpus else 0.0
        share = share_of(nodes, options.engines, options.engine_cpus, gpus)
        made: Any = ray.remote(EngineActor).options(
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            max_restarts=MOST_RESTARTS,
            max_concurrency=BATCHES_AT_ONCE * options.max_batch_size + BESIDE,
            scheduling_strategy="SPREAD",
        )
        self._actors = [made.remote() for _ in range(options.engines)]
        ready = self._ready()
        _, waiting = ray.wait(ready, num_returns=len(ready), timeout=PLACING_SECONDS)
        if waiting:
            raise ClusterError(
                f"{len(waiting)} of {len(ready)} engines found no place on the Ray cluster in "
                f"{PLACING_SECONDS:.0f} seconds: others use it. Ask for fewer --engines, or wait"
            )

    def _ready(self) -> list[Any]:
        """Return what ends with each actor's process at work, started again where it died."""
        return [actor.ready.options(max_task_retries=-1).remote() for actor in self._actors]

    def _open_all(self) -> list[Opened]:
        """Open all engines; raises as `_open` once some have died too often as they opened."""
        import ray
        from ray.exceptions import RayActorError

        for deaths in range(1, MOST_DEATHS_OPENING + 1):
            try:
                ray.get(self._ready())
                return self._open(self._actors)
            except RayActorError as error:
                raise EngineDiedError(f"Ray starts an engine no more: {_line(error)}") from error
            except EngineDiedError:
                if deaths == MOST_DEATHS_OPENING:
                    raise
                time.sleep(PAUSE_SECONDS)
        raise AssertionError

    def _open(self, actors: Sequence[Any]) -> list[Opened]:
        """Open the engines of actors; folders that a node lacks are sent.

        Raises EngineError and what an engine raises.
        """
        import ray
        from ray.exceptions import RayActorError

        def opened(parcels: Mapping[int, Sent | None]) -> dict[int, Any]:
            asked = [actors[n].open.remote(self._plan, sent) for n, sent in parcels.items()]
            return dict(zip(parcels, ray.get(asked), strict=True))

        try:
            outcomes = opened(dict.fromkeys(range(len(actors))))
            outcomes |= opened(
                {n: self._parcel(o.folders) for n, o in outcomes.items() if isinstance(o, Lacking)}
            )
        except RayActorError as error:
            raise EngineDiedError(f"an engine died as it was opened: {_line(error)}") from error
        for outcome in outcomes.values():
            if isinstance(outcome, Failure):
                raise outcome.error()
        return list(outcomes.values())

    def _parcel(self, names: Sequence[str]) -> dict[str, list[tuple[str, Any]]]:
        """Return folders as references to bytes in Ray's store, put there when first asked for."""
        import ray

        for name in names:
            if name not in self._sent:
                folder = self._plan.folders[name]
                logger.info("sending %s to nodes that do not have it", folder.path)
                self._sent[name] = [(file, ray.put(piece)) for file, piece in folder.pieces()]
        return {name: self._sent[name] for name in names}

    def _warn_of_versions(self) -> None:
        ours = package_versions()
        for node, versions in {opened.node: opened.versions for opened in self._opened}.items():
            if other := {name: v for name, v in versions.items() if v != ours[name]}:
                logger.warning("node %s has %s, this one %s: texts may differ", node, other, ours)

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion a request, in order; raises the first failure once all are done."""
        if self._closed:
            raise EngineClosedError("the engine is closed")
        self._watch()
        return await completions_of(map(self._settle, requests))

    async def health(self) -> Health:
        """Return whether any engine makes progress or answers; the reason names the others."""
        seats = self._dispatcher.seats
        restarts = sum(seat.restarts for seat in seats)
        if self._closed or not seats:
            reason = "the engine is closed" if self._closed else "no engine is left"
            return Health(False, reason, len(self._running), None, restarts)
        states = await asyncio.gather(*map(self._health_of, seats))
        well = [state for state in states if state.ok]
        reasons = [f"engine {n}: {s.reason}" for n, s in enumerate(states) if not s.ok]
        since = [s.seconds_since_progress for s in states if s.seconds_since_progress is not None]
        return Health(
            bool(well), "; ".join(reasons), len(self._running), min(since, default=None), restarts
        )

    async def close(self) -> None:
        """End the engines and this process's use of the cluster."""
        if self._closed:
            return
        self._closed = True
        running = [task for task in (*self._running, *self._watchers) if not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        closing = [_value(actor.close.remote()) for actor in self._actors]
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await asyncio.gather(*closing, return_exceptions=True)
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._end_actors()
        self._sent.clear()
        self._connection.leave()

    def _end_actors(self) -> None:
        import ray

        for actor in self._actors:
            ray.kill(actor, no_restart=True)

    def count_tokens(self, text: str) -> int:
        """Return the tokens of `text` under the backbone's tokenizer, without special tokens."""
        return len(text_ids(self.tokenizer, text))

    async def _settle(self, request: Request) -> Completion | EngineError:
        """Return the outcome as a value, so that one failure does not cancel the neighbours."""
        if self._closed:
            return EngineClosedError("the engine is closed")
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            async with asyncio.timeout(request.deadline_seconds):
                return await self._answer(request)
        except EngineError as error:
            return error
        except TimeoutError:
            return DeadlineExceededError(request.deadline_seconds)
        except asyncio.CancelledError:
            if not self._closed:
                raise
            return EngineClosedError("the engine was closed while this request ran")
        except Exception as error:
            return generation_error(error)
        finally:
            self._running.discard(task)

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
                outcome = await self._ask(self._actors[seat.number], sent, listener)
            except (RayActorError, ObjectLostError):
                if seat.restarts == life:
                    self._dispatcher.died(seat)
                continue
            finally:
                self._dispatcher.leave(seat, ticket)
            if isinstance(outcome, Failure):
                raise outcome.error()
            return outcome
        raise EngineDiedError(
            f"{ticket.deaths} engines died as they ran this request, the last {MOST_DEATHS_ALONE} "
            "of them with nothing else to do: it is given up"
        )

    async def _ask(
        self, actor: Any, request: Request, listener: Listener | None
    ) -> Completion | Failure:
        import ray

        if listener is None:
            answer = actor.answer.remote(request)
            try:
                return await _value(answer)
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
        self._running.clear()
        self._watchers = [loop.create_task(self._keep(seat)) for seat in self._dispatcher.seats]

    async def _keep(self, seat: Seat) -> None:
        """Notice the deaths of an actor and open its engine anew, until it cannot be."""
        while True:
            watched = asyncio.ensure_future(_value(self._actors[seat.number].watch.remote()))
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
                await self._reopen(self._actors[seat.number])
            except EngineError as error:
                logger.error("engine %d is given up: %s", seat.number, error)
                self._dispatcher.remove(seat, error)
                return
            self._dispatcher.opened(seat)

    async def _reopen(self, actor: Any) -> None:
        """Open the engine of an actor that Ray starts again, or has started.

        Raises EngineError: it does not open, died too often as it opened, or Ray has given it up.
        """
        from ray.exceptions import RayActorError

        for _ in range(MOST_DEATHS_OPENING):
            try:
                # Waits while Ray looks for a place and starts it.
                await _value(actor.ready.options(max_task_retries=-1).remote())
            except RayActorError as error:
                raise EngineDiedError(f"Ray starts it no more: {_line(error)}") from error
            try:
                await asyncio.to_thread(self._open, [actor])
                return
            except EngineDiedError:
                await asyncio.sleep(PAUSE_SECONDS)
            except UserError as error:
                raise EngineError(str(error)) from error
        raise EngineDiedError(f"it died {MOST_DEATHS_OPENING} times as it was opened")

    async def _health_of(self, seat: Seat) -> Health:
        if not seat.is_open:
            return Health(False, "it is started again")
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                return await _value(self._actors[seat.number].health.remote())
        except TimeoutError:
            return Health(False, f"no answer in {PROBE_SECONDS:.0f} seconds")
        except Exception as error:
            return Health(False, _line(error))


def _is_folder(backbone: str) -> bool:
    return backbone != SMOLLM2 and Path(backbone).expanduser().is_dir()


async def _value(reference: Any) -> Any:
    """Return what a call to an actor returned."""
    return await reference


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
