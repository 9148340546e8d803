"""Server-sent events: an answer that goes out while it is made."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import Any, Generic, TypeVar

from aiohttp import web

T = TypeVar("T")
R = TypeVar("R")
# Proxies close a connection that is silent for a minute.
SECONDS_BETWEEN_SIGNS_OF_LIFE = 15.0
# nginx would collect a stream and send it as a whole.
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class EventStream:
    """One response of `data:` lines."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response: web.StreamResponse | None = None

    @property
    def response(self) -> web.StreamResponse:
        """Return what the handler gives back."""
        assert self._response is not None
        return self._response

    async def begin(self) -> None:
        """Send the headers, after which the status is 200 whatever comes."""
        response = web.StreamResponse(headers=HEADERS)
        response.content_type, response.charset = "text/event-stream", "utf-8"
        await response.prepare(self._request)
        self._response = response

    async def send(self, body: Mapping[str, Any]) -> None:
        """Send one object."""
        await self._write(f"data: {json.dumps(body, ensure_ascii=False)}\n\n")

    async def pass_on(self, body: Mapping[str, Any] | None) -> None:
        """Send one object, or for None a sign of life, which clients pass over."""
        if body is None:
            await self._write(": waiting\n\n")
        else:
            await self.send(body)

    async def end(self) -> None:
        """Send the mark that nothing follows."""
        await self._write("data: [DONE]\n\n")
        await self.response.write_eof()

    async def _write(self, text: str) -> None:
        await self.response.write(text.encode())


class Following(Generic[T, R]):
    """A coroutine that runs, and what it tells on the way.

    result: what it returned, once all was heard.
    """

    def __init__(self) -> None:
        # None: the coroutine has ended.
        self._told: asyncio.Queue[T | None] = asyncio.Queue()
        self.result: R | None = None

    def tell(self, news: T) -> None:
        """Add to what is heard; called by the coroutine."""
        self._told.put_nowait(news)

    async def hear(self, running: Awaitable[R]) -> AsyncGenerator[T | None, None]:
        """Give what is told as it comes, and None where nothing came for long.

        Ends with the coroutine, whose error is raised. Whoever stops listening cancels it.
        """
        task = asyncio.ensure_future(running)
        task.add_done_callback(lambda _: self._told.put_nowait(None))
        try:
            while True:
                try:
                    async with asyncio.timeout(SECONDS_BETWEEN_SIGNS_OF_LIFE):
                        news = await self._told.get()
                except TimeoutError:
                    yield None
                    continue
                if news is None:
                    break
                yield news
            self.result = await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
