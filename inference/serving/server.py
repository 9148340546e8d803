"""An engine behind OpenAI's protocol, from binding its port to draining at a signal."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from typing import TypeVar

from aiohttp import web

from inference.engines.contract import (
    Completion,
    Engine,
    EngineError,
    Health,
    InvalidRequestError,
    Request,
)
from inference.serving.answers import (
    RETRY_LATER,
    ApiError,
    Counts,
    chat_answer,
    completion_answer,
    models_answer,
    of_engine_error,
)
from inference.serving.middlewares import AllowedHosts, failures_as_json, host_check, key_check
from inference.serving.request_body import Body, ChatBody, CompletionBody, parse_body

logger = logging.getLogger(__name__)

BodyT = TypeVar("BodyT", bound=Body)
MAX_BODY_BYTES = 16 * 2**20
DEADLINE_HEADER = "X-Deadline-Seconds"
JSON_TYPE = "application/json"
# For answers that are written and not yet sent.
SENDING_SECONDS = 5.0


def model_names(backbone: str, adapters: Iterable[str]) -> dict[str, str | None]:
    """Return the engine's adapter, None for the backbone, by the name that clients give as `model`.

    Raises InvalidRequestError for an adapter with the backbone's name.
    """
    names: dict[str, str | None] = {name: name for name in adapters}
    if backbone in names:
        raise InvalidRequestError(
            f"the backbone and an adapter are both called {backbone!r}; give --backbone-name"
        )
    return {backbone: None, **names}


class ModelServer:
    """Hands every request of every client to the engine at once, which batches them."""

    def __init__(
        self,
        engine: Engine,
        names: Mapping[str, str | None],
        api_key: str | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        deadline_seconds: float | None = None,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        """Make the server.

        Args:
            engine: closed by whoever opened it.
            names: of `model_names`, what clients may ask for.
            api_key: what clients of /v1 must send as a bearer; None: nothing.
            max_body_bytes: of one request's body, unpacked.
            deadline_seconds: the most that any request gets; None: no such limit.
            allowed_hosts: names in a Host header beside localhost and the address reached.
        """
        self.engine = engine
        self.names = names
        self.counts = Counts()
        self.running = 0
        self.draining = False
        self._middlewares = [
            failures_as_json(self.counts, max_body_bytes),
            host_check(AllowedHosts(allowed_hosts)),
        ]
        if api_key is not None:
            self._middlewares.append(key_check(api_key))
        self._max_body_bytes = max_body_bytes
        self._deadline_seconds = deadline_seconds
        self._idle = asyncio.Event()
        self._idle.set()
        self._probe: asyncio.Task[Health] | None = None
        self._started = int(time.time())

    def application(self) -> web.Application:
        """Return the routes; run it with `handler_cancellation`, so that who leaves is let go."""
        application = web.Application(
            middlewares=self._middlewares, client_max_size=self._max_body_bytes
        )
        application.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chats),
            ]
        )
        return application

    async def drain(self, seconds: float) -> None:
        """Refuse what comes from now on, and wait for what runs, so long at most."""
        self.draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("%d requests still run after %g seconds", self.running, seconds)

    async def _health(self, request: web.Request) -> web.Response:
        """Return the engine's own word; callers at one time share one probe of it."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self.engine.health())
        health = await asyncio.shield(self._probe)
        ok = health.ok and not self.draining
        body = {
            "status": "ok" if ok else "unavailable",
            "reason": "the server is stopping" if self.draining else health.reason,
            "running": health.running,
            "seconds_since_progress": health.seconds_since_progress,
            "restarts": health.restarts,
        }
        return web.json_response(
            body, status=200 if ok else 503, headers=None if ok else RETRY_LATER
        )

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response(models_answer(self.names, self._started))

    async def _completions(self, request: web.Request) -> web.Response:
        body = await self._body(request, CompletionBody)
        requests = body.requests(self._adapter(body), self._deadline(request))
        done = await self._generate(requests, "prompt")
        return web.json_response(completion_answer(body.model, done))

    async def _chats(self, request: web.Request) -> web.Response:
        body = await self._body(request, ChatBody)
        requests = body.requests(self._adapter(body), self._deadline(request))
        done = await self._generate(requests, "messages")
        return web.json_response(chat_answer(body.model, done))

    async def _body(self, request: web.Request, kind: type[BodyT]) -> BodyT:
        # A page in a browser can post to this machine under other types without asking.
        if request.content_type != JSON_TYPE:
            message = f"the body's type is {request.content_type}; send Content-Type: {JSON_TYPE}"
            raise ApiError(415, message, "Content-Type")
        return parse_body(kind, await request.read())

    def _adapter(self, body: Body) -> str | None:
        """Return the adapter that `model` names. Raises ApiError for a name that is none."""
        known = ", ".join(self.names)
        if body.model not in self.names:
            message = f"model: there is no {body.model!r}; there is: {known}"
            raise ApiError(404, message, "model", "model_not_found")
        if body.soft_prompt is not None and self.names.get(body.soft_prompt) is None:
            message = f"soft_prompt: no component {body.soft_prompt!r}; there is: {known}"
            raise ApiError(400, message, "soft_prompt", "invalid_value")
        return self.names[body.model]

    def _deadline(self, request: web.Request) -> float | None:
        """Return the shorter of the header's and the server's own. Raises ApiError."""
        deadlines = [each for each in (_header_deadline(request), self._deadline_seconds) if each]
        return min(deadlines, default=None)

    async def _generate(self, requests: list[Request], prompt_field: str) -> list[Completion]:
        if self.draining:
            raise ApiError(503, "the server is stopping", code="stopping", headers=RETRY_LATER)
        self.running += 1
        self._idle.clear()
        try:
            done = await self.engine.generate(requests)
        except EngineError as error:
            raise of_engine_error(error, prompt_field) from error
        except asyncio.CancelledError:
            self.counts.abandoned += 1
            raise
        finally:
            self.running -= 1
            if not self.running:
                self._idle.set()
        self.counts.answered += 1
        self.counts.input_tokens += sum(one.input_tokens for one in done)
        self.counts.output_tokens += sum(one.output_tokens for one in done)
        return done


def _header_deadline(request: web.Request) -> float | None:
    """Return the seconds of the header. Raises ApiError for what is no number above 0."""
    text = request.headers.get(DEADLINE_HEADER)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        message = f"{DEADLINE_HEADER}: {text[:40]!r} is no number of seconds above 0"
        raise ApiError(400, message, DEADLINE_HEADER, "invalid_value")
    return seconds


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
    logger.info("%s at http://%s:%d/v1", ", ".join(server.names), shown, port)
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
