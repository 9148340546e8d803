"""A server with the page and loops that say what a test has them say, when it lets them."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from inference.serving.page_routes import page_routes

Json = dict[str, Any]
DONE = "[DONE]"
Script = Sequence[Json | str | asyncio.Event]
# In place of a chunk: the connection is cut.
DIES = "dies"
# A comment, which keeps a connection open.
WAITING = ": waiting\n\n"


@dataclass
class StandIn:
    """What the server says. A script is sent in order; an event in it is waited for.

    refusals: answers in place of a stream, each once.
    """

    scripts: dict[str, Script]
    passages: Mapping[str, Json] = field(default_factory=dict)
    key: str | None = None
    refusals: list[web.Response] = field(default_factory=list)
    address: str = ""
    asked: list[Json] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def application(self) -> web.Application:
        """The routes."""
        application = web.Application()
        application.add_routes(
            [
                *page_routes(),
                web.get("/v1/models", self._models),
                web.post("/v1/chat/completions", self._chat),
                web.get("/passages/{id}", self._passage),
            ]
        )
        return application

    async def _models(self, request: web.Request) -> web.Response:
        if self._locked(request):
            return refusal(401, "no key")
        loops = [{"id": name, "object": "model", "kind": "loop"} for name in self.scripts]
        backbone = {"id": "smollm2", "object": "model", "kind": "backbone"}
        return web.json_response({"object": "list", "data": [backbone, *loops]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if self._locked(request):
            return refusal(401, "no key")
        body = await request.json()
        self.asked.append(body)
        if self.refusals:
            return self.refusals.pop(0)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await self._send(request, response, self.scripts[body["model"]])
        except (ConnectionError, asyncio.CancelledError):
            self.left.set()
            raise
        return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        script: Script,
    ) -> None:
        for part in script:
            if isinstance(part, asyncio.Event):
                await part.wait()
            elif part == DIES:
                assert request.transport is not None
                request.transport.abort()
            else:
                text = part if isinstance(part, str) else json.dumps(part)
                await response.write((text if text == WAITING else f"data: {text}\n\n").encode())

    async def _passage(self, request: web.Request) -> web.Response:
        found = self.passages.get(request.match_info["id"])
        if found is None:
            return refusal(404, "no such passage")
        return web.json_response(found)

    def _locked(self, request: web.Request) -> bool:
        return self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}"


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error as OpenAI's protocol has it."""
    error = {"message": message, "type": "error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status, headers=headers)


def chunk(delta: Json, **beside: Any) -> Json:
    """A chunk of a streamed answer."""
    choice = {"index": 0, "delta": delta, "finish_reason": beside.pop("finish_reason", None)}
    return {"object": "chat.completion.chunk", "choices": [choice], **beside}


def step_chunk(number: int, step: Json) -> Json:
    """The chunk of a round."""
    return chunk(
        {"reasoning_content": f"{number}. {step['subquery']}\n"}, step={"number": number, **step}
    )


def end_chunks(trace: Json, annotations: Sequence[Json] = ()) -> list[Json | str]:
    """The answer, its annotations and the end of a stream."""
    return [
        chunk({"content": trace["answer"]}),
        chunk({"annotations": list(annotations)}),
        chunk({}, finish_reason="stop", trace=trace, usage={"bill": trace["bill"]}),
        DONE,
    ]


def script_of(trace: Json, annotations: Sequence[Json] = ()) -> list[Json | str]:
    """A whole streamed answer without a wait."""
    steps = [step_chunk(number, step) for number, step in enumerate(trace["steps"], start=1)]
    return [chunk({"role": "assistant", "content": ""}), *steps, *end_chunks(trace, annotations)]


@asynccontextmanager
async def serving(server: StandIn) -> AsyncIterator[StandIn]:
    """Serve at a free port; `address` is set meanwhile."""
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.address = "http://127.0.0.1:{1}".format(*runner.addresses[0])
    try:
        yield server
    finally:
        await runner.cleanup()
