"""The actors of a pool: placed by Ray, opened with the folders that their nodes lack, ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.errors import UserError
from inference.engines.contract import EngineDiedError, EngineError, EngineOptions
from inference.engines.ray.actor import Build, EngineActor, Lacking, Opened, Plan, Sent
from inference.engines.ray.cluster import ClusterError, connect, share_of
from inference.engines.ray.folders import Folder
from inference.engines.ray.transport import Failure
from models.files.backbone import SMOLLM2
from models.files.checkpoint import package_versions

logger = logging.getLogger(__name__)

# While one batch runs the next one is there, and long enough to be sorted by length.
BATCHES_AT_ONCE = 2
# Of an actor beside its requests: `watch`, `health`, `close` and those that were cancelled.
BESIDE = 100
MOST_RESTARTS = 100
MOST_DEATHS_OPENING = 3
PLACING_SECONDS = 300.0
PAUSE_SECONDS = 0.5


class Pool:
    """Actors of one plan on a cluster, each with an open engine; Ray starts them again."""

    def __init__(
        self, build: Build, options: EngineOptions, backbone: str, adapters: Mapping[str, Path]
    ) -> None:
        """Connect to the cluster, or start one, and open all engines; see `RayEngine`."""
        self.capacity = BATCHES_AT_ONCE * options.max_batch_size
        self.actors: list[Any] = []
        self._sent: dict[str, list[tuple[str, Any]]] = {}
        self._connection = connect(options.ray_address)
        try:
            self._start(options)
            self._plan = Plan(
                build,
                replace(options, kind=options.ray_engine, engines=1),
                Folder.read(backbone) if _is_folder(backbone) else backbone,
                {name: Folder.read(folder) for name, folder in adapters.items()},
            )
            _warn_of_versions(self._open_all())
        except BaseException:
            self.end()
            raise

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
            max_concurrency=self.capacity + BESIDE,
            scheduling_strategy="SPREAD",
        )
        self.actors = [made.remote() for _ in range(options.engines)]
        ready = self._ready()
        _, waiting = ray.wait(ready, num_returns=len(ready), timeout=PLACING_SECONDS)
        if waiting:
            raise ClusterError(
                f"{len(waiting)} of {len(ready)} engines found no place on the Ray cluster in "
                f"{PLACING_SECONDS:.0f} seconds: others use it. Ask for fewer --engines, or wait"
            )

    def _ready(self) -> list[Any]:
        """Return what ends with each actor's process at work, started again where it died."""
        return [actor.ready.options(max_task_retries=-1).remote() for actor in self.actors]

    def _open_all(self) -> list[Opened]:
        """Open all engines; raises as `_open` once some have died too often as they opened."""
        import ray
        from ray.exceptions import RayActorError

        for deaths in range(1, MOST_DEATHS_OPENING + 1):
            try:
                ray.get(self._ready())
                return self._open(self.actors)
            except RayActorError as error:
                raise EngineDiedError(f"Ray starts an engine no more: {line_of(error)}") from error
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
            raise EngineDiedError(f"an engine died as it was opened: {line_of(error)}") from error
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

    async def reopen(self, actor: Any) -> None:
        """Open the engine of an actor that Ray starts again, or has started.

        Raises EngineError: it does not open, died too often as it opened, or Ray has given it up.
        """
        from ray.exceptions import RayActorError

        for _ in range(MOST_DEATHS_OPENING):
            try:
                # Waits while Ray looks for a place and starts it.
                await value_of(actor.ready.options(max_task_retries=-1).remote())
            except RayActorError as error:
                raise EngineDiedError(f"Ray starts it no more: {line_of(error)}") from error
            try:
                await asyncio.to_thread(self._open, [actor])
                return
            except EngineDiedError:
                await asyncio.sleep(PAUSE_SECONDS)
            except UserError as error:
                raise EngineError(str(error)) from error
        raise EngineDiedError(f"it died {MOST_DEATHS_OPENING} times as it was opened")

    def end(self) -> None:
        """End the actors and this process's use of the cluster."""
        import ray

        for actor in self.actors:
            ray.kill(actor, no_restart=True)
        self._sent.clear()
        self._connection.leave()


def _is_folder(backbone: str) -> bool:
    return backbone != SMOLLM2 and Path(backbone).expanduser().is_dir()


def _warn_of_versions(opened: Sequence[Opened]) -> None:
    ours = package_versions()
    for node, versions in {each.node: each.versions for each in opened}.items():
        if other := {name: v for name, v in versions.items() if v != ours[name]}:
            logger.warning("node %s has %s, this one %s: texts may differ", node, other, ours)


async def value_of(reference: Any) -> Any:
    """Return what a call to an actor returned."""
    return await reference


def line_of(error: Exception) -> str:
    """Return the beginning of an error's message as one line."""
    return " ".join(str(error).split())[:300]
