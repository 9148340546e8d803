"""The project's own server over an engine, at a free port of this machine."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from inference.engines.contract import Engine
from inference.serving.model_server import ModelServer, model_names


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
