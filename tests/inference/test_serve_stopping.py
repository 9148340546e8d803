"""Clients that leave, engines that fail and servers that stop, over an engine told what to do."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import ClientSession

from inference.engines.contract import (
    Completion,
    EngineClosedError,
    EngineDiedError,
    GenerationError,
    Health,
    Request,
)
from inference.serving import event_stream
from inference.serving.metrics import Metrics
from inference.serving.request_body import CompletionBody
from inference.serving.server import ModelServer, model_names
from inference.serving.streams import component_chunks
from tests.inference.local_server import listening


class StubEngine:
    """Says when a call came, and answers or fails when it is told to."""

    def __init__(self, health: Health | None = None) -> None:
        self.called = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.failure: Exception | None = None
        self.requests: list[Request] = []
        self._health = health or Health(True)

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """One word a request."""
        self.requests += requests
        self.called.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if self.failure is not None:
            raise self.failure
        return [Completion("done", (5,), 3, 1, "stop") for _ in requests]

    async def health(self) -> Health:
        """As it was made."""
        return self._health

    async def close(self) -> None:
        """What waits ends."""
        self.failure = EngineClosedError("closed")
        self.go_on.set()

    def count_tokens(self, text: str) -> int:
        """Words."""
        return len(text.split())


async def test_a_client_that_leaves_cancels_its_request() -> None:
    engine = StubEngine()
    server = ModelServer(engine, model_names("m", []))
    async with listening(server) as address, ClientSession() as session:
        call = asyncio.create_task(
            session.post(f"{address}/v1/completions", json={"model": "m", "prompt": "x"})
        )
        await engine.called.wait()
        assert server.running == 1
        call.cancel()
        await asyncio.wait_for(engine.cancelled.wait(), 60)
        await asyncio.sleep(0)
        assert (server.running, server.metrics.counts.abandoned) == (0, 1)


def other_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def test_a_client_that_leaves_a_stream_leaves_no_task_behind() -> None:
    engine = StubEngine()
    server = ModelServer(engine, model_names("m", []))
    async with listening(server) as address, ClientSession() as session:
        body = {"model": "m", "prompt": "x", "stream": True}
        call = asyncio.create_task(session.post(f"{address}/v1/completions", json=body))
        await engine.called.wait()
        call.cancel()
        await asyncio.wait_for(engine.cancelled.wait(), 60)
    assert (server.running, server.metrics.counts.abandoned) == (0, 1)
    assert not other_tasks()


async def test_a_stream_that_is_closed_has_ended_what_ran_for_it() -> None:
    engine = StubEngine()
    body = CompletionBody(model="m", prompt="x", stream=True)
    chunks = component_chunks(body, engine, body.requests(None, None), Metrics())
    first = asyncio.ensure_future(anext(chunks))
    await engine.called.wait()
    [request] = engine.requests
    assert request.on_text is not None
    request.on_text("On")
    assert (await first)["choices"][0]["text"] == "On"
    await chunks.aclose()
    assert engine.cancelled.is_set() and not other_tasks()


async def test_a_silent_stream_gives_signs_of_life_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "SECONDS_BETWEEN_SIGNS_OF_LIFE", 0.01)
    following: event_stream.Following[int, str] = event_stream.Following()

    async def tells() -> str:
        for number in range(3):
            await asyncio.sleep(0.05)
            following.tell(number)
        following.tell(3)
        return "told"

    heard = [news async for news in following.hear(tells())]
    assert [news for news in heard if news is not None] == [0, 1, 2, 3]
    assert None in heard and following.result == "told" and not other_tasks()


async def test_what_the_engine_cannot_do() -> None:
    failures = [
        (EngineDiedError("died"), 503, "engine_died", True, "false"),
        (EngineClosedError("closed"), 503, "engine_closed", True, None),
        (GenerationError("generation failed: x"), 500, "generation_failed", False, None),
        (ZeroDivisionError("the insides"), 500, "internal", False, None),
    ]
    engine = StubEngine(Health(False, "no step lately", running=3, restarts=2))
    engine.go_on.set()
    async with (
        listening(ModelServer(engine, model_names("m", []))) as address,
        ClientSession() as session,
    ):
        for failure, status, code, waits, again in failures:
            engine.failure = failure
            body = {"model": "m", "prompt": "x"}
            async with session.post(f"{address}/v1/completions", json=body) as response:
                error = (await response.json())["error"]
                assert (response.status, error["type"]) == (status, "server_error")
                assert error["code"] == code
                assert ("Retry-After" in response.headers) == waits
                assert response.headers.get("x-should-retry") == again
                assert "insides" not in error["message"]
        async with session.get(f"{address}/health") as response:
            assert response.status == 503
            health = await response.json()
            assert (health["reason"], health["running"], health["restarts"]) == (
                "no step lately",
                3,
                2,
            )


async def test_a_server_that_stops_finishes_what_runs_and_takes_no_more() -> None:
    engine = StubEngine()
    server = ModelServer(engine, model_names("m", []))
    body = {"model": "m", "prompt": ["x", "y"]}
    async with listening(server) as address, ClientSession() as session:

        async def ask() -> tuple[int, Any]:
            async with session.post(f"{address}/v1/completions", json=body) as response:
                return response.status, await response.json()

        running = asyncio.create_task(ask())
        await engine.called.wait()
        draining = asyncio.create_task(server.drain(60))
        await asyncio.sleep(0)
        status, answer = await ask()
        assert (status, answer["error"]["code"]) == (503, "stopping")
        async with session.get(f"{address}/health") as response:
            assert response.status == 503
        assert not draining.done()
        engine.go_on.set()
        await asyncio.wait_for(draining, 60)
        status, answer = await running
        assert (status, len(answer["choices"])) == (200, 2)
        assert (server.metrics.counts.answered, server.metrics.counts.output_tokens) == (1, 2)


async def test_a_drain_is_bounded() -> None:
    engine = StubEngine()
    server = ModelServer(engine, model_names("m", []))
    async with listening(server) as address, ClientSession() as session:
        call = asyncio.create_task(
            session.post(f"{address}/v1/completions", json={"model": "m", "prompt": "x"})
        )
        await engine.called.wait()
        await asyncio.wait_for(server.drain(0.05), 60)
        await engine.close()
        assert (await call).status == 503
