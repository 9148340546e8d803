"""An engine, and loops over it, behind OpenAI's protocol."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import ClientConnectionResetError, web
from pydantic import BaseModel

from inference.engines.contract import (
    Engine,
    EngineError,
    Health,
    InvalidRequestError,
)
from inference.indexes.extraction import RequestMaker
from inference.loops.trace import Loop
from inference.serving.answers import (
    RETRY_LATER,
    ApiError,
    chat_answer,
    completion_answer,
    internal_error,
    models_answer,
    of_engine_error,
)
from inference.serving.event_stream import EventStream
from inference.serving.loop_chats import LoopChat
from inference.serving.metrics import CONTENT_TYPE, Metrics
from inference.serving.middlewares import AllowedHosts, failures_as_json, host_check, key_check
from inference.serving.page_routes import page_routes
from inference.serving.passages import PATH, CitedPassages
from inference.serving.request_body import (
    Body,
    ChatBody,
    CompletionBody,
    parse_body,
    shorter_deadline,
)
from inference.serving.streams import Bodies, component_chunks, loop_answer, loop_chunks
from inference.serving.triples import TriplesBody, triples_answer, triples_requests_of

logger = logging.getLogger(__name__)

BodyT = TypeVar("BodyT", bound=BaseModel)
MAX_BODY_BYTES = 16 * 2**20
DEADLINE_HEADER = "X-Deadline-Seconds"
JSON_TYPE = "application/json"
# More than any machine answers within a client's patience; each costs memory alone.
MOST_RUNNING = 1024
RETRY_WHEN_FULL = {"Retry-After": "5"}


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


@dataclass(frozen=True)
class Served:
    """Everything that a server offers beside the engine's models.

    loops: by the name that clients give. passages: what the loops' answers cite. triples: makers
    of requests to the text-to-triples components, by the components' names.
    """

    loops: Mapping[str, Loop] = field(default_factory=dict)
    passages: CitedPassages = field(default_factory=lambda: CitedPassages({}))
    triples: Mapping[str, RequestMaker] = field(default_factory=dict)


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
        served: Served | None = None,
        most_running: int = MOST_RUNNING,
    ) -> None:
        """Make the server.

        Args:
            engine: closed by whoever opened it.
            names: of `model_names`, what clients may ask for.
            api_key: what clients of /v1 must send as a bearer; None: nothing.
            max_body_bytes: of one request's body, unpacked.
            deadline_seconds: the most that any request gets; None: no such limit.
            allowed_hosts: names in a Host header beside localhost and the address reached.
            served: loops and what belongs to them.
            most_running: requests taken and not yet answered; more are refused with 429.
        """
        self.engine = engine
        self.names = names
        self.served = served or Served()
        self.metrics = Metrics()
        self.running = 0
        self.draining = False
        self._middlewares = [
            failures_as_json(self.metrics, max_body_bytes),
            host_check(AllowedHosts(allowed_hosts)),
        ]
        if api_key is not None:
            self._middlewares.append(key_check(api_key))
        self._max_body_bytes = max_body_bytes
        self._deadline_seconds = deadline_seconds
        self._most_running = most_running
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
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chats),
                web.post("/v1/triples", self._triples),
                web.get(PATH + "{name:.+}", self.served.passages.answer),
                *page_routes(),
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

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response(models_answer(self.names, self.served.loops, self._started))

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request, CompletionBody)
        return await self._component(request, body, self._adapter(body), "prompt")

    async def _chats(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request, ChatBody)
        loop = self.served.loops.get(body.model)
        if loop is None:
            return await self._component(request, body, self._adapter(body), "messages")
        if body.is_background_task:
            return await self._component(request, body, None, "messages")
        asked = body.asked(self._deadline(request))
        passages, origin = self.served.passages, str(request.url.origin())
        chat = LoopChat(loop, self.engine, passages, origin)
        async with self._taken(body.model, "messages"):
            if body.stream:
                chunks = loop_chunks(body, chat, asked, self.metrics)
                return await self._streamed(request, chunks, "messages")
            return web.json_response(await loop_answer(body, chat, asked, self.metrics))

    async def _component(
        self, request: web.Request, body: Body, adapter: str | None, prompt_field: str
    ) -> web.StreamResponse:
        """Answer by the backbone or one component, as a whole or in chunks."""
        requests = body.requests(adapter, self._deadline(request))
        async with self._taken(body.model, prompt_field):
            if body.stream:
                chunks = component_chunks(body, self.engine, requests, self.metrics)
                return await self._streamed(request, chunks, prompt_field)
            done = await self.engine.generate(requests)
            self.metrics.completed(body.model, done)
        write = chat_answer if isinstance(body, ChatBody) else completion_answer
        return web.json_response(write(body.model, done))

    async def _triples(self, request: web.Request) -> web.Response:
        body = await self._body(request, TriplesBody)
        places, requests = triples_requests_of(body, self.served.triples, self._deadline(request))
        async with self._taken(body.model, "input"):
            done = await self.engine.generate(requests) if requests else []
            self.metrics.completed(body.model, done)
        return web.json_response(triples_answer(body, places, done))

    async def _streamed(
        self, request: web.Request, chunks: Bodies, prompt_field: str
    ) -> web.StreamResponse:
        """Send chunks as they come; a failure before the first of them is an answer of its own."""
        stream = EventStream(request)
        try:
            first = await anext(chunks)
            await stream.begin()
            try:
                await stream.pass_on(first)
                async for chunk in chunks:
                    await stream.pass_on(chunk)
            except ClientConnectionResetError:
                raise
            except Exception as error:
                await stream.send(self._failed_in_stream(request, error, prompt_field).body())
            await stream.end()
        except ClientConnectionResetError:
            raise asyncio.CancelledError from None
        finally:
            await chunks.aclose()
        return stream.response

    def _failed_in_stream(
        self, request: web.Request, error: Exception, prompt_field: str
    ) -> ApiError:
        """Return what ends a stream that has begun, counted and logged; its status is sent."""
        self.metrics.failed()
        if isinstance(error, EngineError):
            logger.warning("%s, in a stream: %s", request.path, error)
            return of_engine_error(error, prompt_field)
        logger.error("%s, in a stream", request.path, exc_info=error)
        return internal_error()

    async def _body(self, request: web.Request, kind: type[BodyT]) -> BodyT:
        # A page in a browser can post to this machine under other types without asking.
        if request.content_type != JSON_TYPE:
            message = f"the body's type is {request.content_type}; send Content-Type: {JSON_TYPE}"
            raise ApiError(415, message, "Content-Type")
        return parse_body(kind, await request.read())

    def _adapter(self, body: Body) -> str | None:
        """Return the adapter that `model` names. Raises ApiError for a name that is none."""
        known = ", ".join(dict.fromkeys((*self.names, *self.served.loops)))
        if body.model not in self.names:
            if body.model in self.served.loops:
                message = f"model: {body.model!r} is a loop; ask it by POST /v1/chat/completions"
                raise ApiError(400, message, "model", "unsupported")
            message = f"model: there is no {body.model!r}; there is: {known}"
            raise ApiError(404, message, "model", "model_not_found")
        if body.soft_prompt is not None and self.names.get(body.soft_prompt) is None:
            message = f"soft_prompt: no component {body.soft_prompt!r}; there is: {known}"
            raise ApiError(400, message, "soft_prompt", "invalid_value")
        return self.names[body.model]

    def _deadline(self, request: web.Request) -> float | None:
        """Return the shorter of the header's and the server's own. Raises ApiError."""
        return shorter_deadline(_header_deadline(request), self._deadline_seconds)

    @asynccontextmanager
    async def _taken(self, model: str, prompt_field: str) -> AsyncIterator[None]:
        """Count a request while it runs. Raises ApiError: the server stops or is full, or what an
        engine refuses.
        """
        if self.draining:
            raise ApiError(503, "the server is stopping", code="stopping", headers=RETRY_LATER)
        if self.running >= self._most_running:
            message = f"{self.running} requests run or wait already; ask again in a few seconds"
            raise ApiError(429, message, code="too_many_requests", headers=RETRY_WHEN_FULL)
        self.running += 1
        self._idle.clear()
        try:
            with self.metrics.running(model):
                yield
        except EngineError as error:
            raise of_engine_error(error, prompt_field) from error
        except asyncio.CancelledError:
            self.metrics.abandoned(model)
            raise
        finally:
            self.running -= 1
            if not self.running:
                self._idle.set()


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
