"""The project's own server over an engine, at a free port of this machine."""

import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from inference.engines.contract import Engine
from inference.serving.server import ModelServer, model_names
from tests.processes import begin

SERVE = Path(__file__).resolve().parents[2] / "inference" / "serve.py"
LISTENS = re.compile(r"http://127\.0\.0\.1:\d+/v1")


def address_in(lines: Iterable[str], seen: list[str]) -> str:
    """Where a server says that it listens."""
    for line in lines:
        seen.append(line)
        found = LISTENS.search(line)
        if found:
            return found[0]
    raise AssertionError("".join(seen)[-2000:])


@contextmanager
def serving_command(*arguments: object) -> Iterator[str]:
    """The address of serve.py as a process of its own, on transformers in float32."""
    engine = ("--engine", "transformers", "--dtype", "float32", "--port", "0")
    process = begin(SERVE, *arguments, *engine)
    try:
        while process.poll() is None and not LISTENS.search(process.errors):
            time.sleep(0.05)
        yield address_in(process.errors.splitlines(keepends=True), [])
    finally:
        process.kill()


@asynccontextmanager
async def local_server(
    engine: Engine, backbone: str, adapters: Iterable[str] = (), **settings: Any
) -> AsyncIterator[str]:
    """The server's address with /v1; the engine stays the caller's."""
    server = ModelServer(engine, model_names(backbone, adapters), **settings)
    async with listening(server) as address:
        yield f"{address}/v1"


@asynccontextmanager
async def listening(server: ModelServer) -> AsyncIterator[str]:
    """The address of a server, run as `run_until_signal` runs it."""
    runner = web.AppRunner(
        server.application(), handler_cancellation=True, access_log=None, shutdown_timeout=1.0
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://127.0.0.1:{1}".format(*runner.addresses[0])
    finally:
        await runner.cleanup()
