"""One engine of a pool, in a process of its own that Ray places and starts again."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from common.errors import UserError
from inference.engines.contract import (
    Completion,
    Engine,
    EngineDiedError,
    EngineError,
    EngineOptions,
    Health,
    Request,
    generation_error,
)
from inference.engines.ray.folders import Folder
from inference.engines.ray.transport import Failure
from models.files.checkpoint import package_versions

DIED = 1


class Build(Protocol):
    """What opens an engine; found by its name on every node, so a function of a module."""

    def __call__(
        self, options: EngineOptions, backbone: str | None, adapters: Mapping[str, str | Path]
    ) -> Engine:
        """Return an engine that is ready."""
        ...


@dataclass(frozen=True)
class Plan:
    """What each engine of a pool is: its options, backbone and components.

    backbone: a folder, or a name that every node resolves itself.
    """

    build: Build
    options: EngineOptions
    backbone: Folder | str
    adapters: Mapping[str, Folder]

    @property
    def folders(self) -> dict[str, Folder]:
        """All folders by their fingerprints."""
        backbone = [self.backbone] if isinstance(self.backbone, Folder) else []
        return {folder.fingerprint: folder for folder in (*self.adapters.values(), *backbone)}


@dataclass(frozen=True)
class Lacking:
    """Fingerprints of the folders that a node does not have."""

    folders: tuple[str, ...]


@dataclass(frozen=True)
class Opened:
    """Where an engine runs, and the versions that decide what it computes."""

    node: str
    process: int
    versions: dict[str, str]


@dataclass(frozen=True)
class NotOpen:
    """The answer of an actor that Ray has started again and whose engine is not open yet."""


# A folder's pieces by its fingerprint: names of files, and references to bytes in Ray's store.
Sent = Mapping[str, Sequence[tuple[str, Any]]]


class EngineActor:
    """Holds an engine; what fails comes back as a value (`Failure`).

    An engine that says that its process died ends this one too: Ray starts both anew.
    """

    def __init__(self) -> None:
        self._engine: Engine | None = None

    async def ready(self) -> None:
        """Return once the process runs."""

    async def watch(self) -> None:
        """Never return: the caller learns from the error that this process has ended."""
        await asyncio.Event().wait()

    async def open(self, plan: Plan, sent: Sent | None = None) -> Opened | Lacking | Failure:
        """Open the engine, or say which folders are to be sent first. May be called again."""
        try:
            places = {name: folder.found() for name, folder in plan.folders.items()}
            for name, pieces in (sent or {}).items():
                if places[name] is None:
                    places[name] = await _kept(plan.folders[name], pieces)
            lacking = tuple(name for name, place in places.items() if place is None)
            if lacking:
                return Lacking(lacking)
            if self._engine is None:
                self._engine = _built(plan, places)
        except UserError as error:
            return Failure.of(error)
        except Exception as error:
            said = f"an engine did not open on {platform.node()}: {type(error).__name__}: {error}"
            return Failure.of(EngineError(said))
        return Opened(platform.node(), os.getpid(), package_versions())

    async def answer(self, request: Request) -> Completion | Failure | NotOpen:
        """Return the completion of a request."""
        if self._engine is None:
            return NotOpen()
        try:
            [done] = await self._engine.generate([request])
        except Exception as error:
            return _failed(error)
        return done

    async def write(self, request: Request) -> AsyncIterator[str | Completion | Failure | NotOpen]:
        """Yield the pieces of a text as they are written, and then what `answer` returns."""
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        task = asyncio.create_task(self.answer(replace(request, on_text=pieces.put_nowait)))
        # Pieces come before the end of the call that makes them, in the same event loop.
        task.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            yield await task
        finally:
            task.cancel()

    async def health(self) -> Health:
        """Return the state of the engine."""
        if self._engine is None:
            return Health(False, "no engine is open")
        return await self._engine.health()

    async def close(self) -> None:
        """Stop the engine; what runs ends with EngineClosedError."""
        if self._engine is not None:
            await self._engine.close()


async def _kept(folder: Folder, pieces: Sequence[tuple[str, Any]]) -> Path:
    async def arriving() -> AsyncIterator[tuple[str, bytes]]:
        for name, reference in pieces:
            yield name, await reference

    return await folder.keep(arriving)


def _built(plan: Plan, places: Mapping[str, Path | None]) -> Engine:
    def place(folder: Folder) -> str:
        return str(places[folder.fingerprint])

    adapters = {name: place(folder) for name, folder in plan.adapters.items()}
    backbone = plan.backbone
    return plan.build(
        plan.options, place(backbone) if isinstance(backbone, Folder) else backbone, adapters
    )


def _failed(error: Exception) -> Failure:
    if isinstance(error, EngineDiedError):
        # Not an exit in order: this is a death, which Ray repairs and the pool counts.
        os._exit(DIED)
    return Failure.of(error if isinstance(error, EngineError) else generation_error(error))
