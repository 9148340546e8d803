"""A server's life: a port bound, requests served until a signal, what runs finished."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket

from aiohttp import web

from inference.serving.server import ModelServer

logger = logging.getLogger(__name__)
# For answers that are written and not yet sent.
SENDING_SECONDS = 5.0


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket at an address, not yet listening; port 0 takes a free one.

    Raises OSError: the address is in use or not this machine's.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise OSError(
            error.errno, f"{error.strerror}. Choose another --host or --port", f"{host}:{port}"
        ) from None
    return bound


async def run_until_signal(server: ModelServer, bound: socket.socket, drain_seconds: float) -> None:
    """Serve until SIGTERM or Ctrl-C, finish what runs, close the engine.

    What still runs after `drain_seconds` ends with 503. A second signal ends the process at once.
    """
    runner = web.AppRunner(
        server.application(),
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=SENDING_SECONDS,
    )
    await runner.setup()
    site = web.SockSite(runner, bound)
    await site.start()
    stopping = _stop_event()
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    models = ", ".join(dict.fromkeys((*server.names, *server.served.loops)))
    logger.info("%s at http://%s:%d/v1", models, shown, port)
    await stopping.wait()
    await site.stop()
    await server.drain(drain_seconds)
    await server.engine.close()
    await runner.cleanup()


def _stop_event() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the next one does what it does by default."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop(number: signal.Signals) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
        logger.info("%s: finishing what runs", number.name)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    return stopping
