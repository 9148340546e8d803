"""The endpoint engine against a local server that speaks the protocol."""

import asyncio
import json
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from inference.engines.contract import (
    AccessError,
    Engine,
    EngineClosedError,
    EngineError,
    EngineOptions,
    InvalidRequestError,
    PromptTooLongError,
    Request,
    Sampling,
    TransientError,
    UnsupportedRequestError,
)
from inference.engines.openai import OpenAIEngine, retry_after_seconds
from inference.opening.engine import build_engine


class FakeEndpoint(BaseHTTPRequestHandler):
    """Echoes the prompt; fails once on "flaky" and always on "refuse"."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, dict[str, Any], str]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        FakeEndpoint.seen.append((self.path, body, self.headers["Authorization"]))
        chat = self.path.endswith("/chat/completions")
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        times = sum(1 for _, past, _ in self.seen if past == body)
        if body.get("stream"):
            self.stream(prompt)
        elif prompt == "refuse":
            self.reply(400, {"error": {"message": "no such model", "type": "invalid"}})
        elif prompt.startswith("status "):
            status, wait, code = prompt.split()[1:]
            headers = {"Retry-After": wait} if wait != "-" else {}
            self.reply(int(status), {"error": {"message": "no", "code": code}}, headers)
        elif prompt == "say the key":
            key = self.headers["Authorization"].removeprefix("Bearer ")
            self.reply(401, {"error": {"message": f"Incorrect API key provided: {key}"}})
        elif prompt == "half":
            self.reply(200, self.answer("never whole", chat), cut=True)
        elif prompt == "half, and says so":
            self.reply(200, self.answer("never whole", chat), cut=True, length=False)
        elif prompt == "flaky" and times == 1:
            self.reply(503, {"error": {"message": "busy"}})
        else:
            self.reply(200, self.answer(f"echo {prompt}", chat))

    def answer(self, text: str, chat: bool) -> dict[str, Any]:
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        if chat:
            token = {"token": "x", "logprob": -0.5, "top_logprobs": []}
            choice |= {"message": {"role": "assistant", "content": text}}
            choice |= {"logprobs": {"content": [token]}}
        else:
            choice |= {"text": text, "logprobs": {"token_logprobs": [-0.25]}}
        kind = "chat.completion" if chat else "text_completion"
        return {"id": "1", "object": kind, "created": 0, "model": "m"} | {
            "choices": [choice],
            "usage": usage,
        }

    def reply(
        self,
        status: int,
        body: dict[str, Any],
        headers: dict[str, str] | None = None,
        cut: bool = False,
        length: bool = True,
    ) -> None:
        """Answer; `cut` sends half of it, and with `length` promises the whole."""
        data = json.dumps(body).encode()
        sent = data[: len(data) // 2] if cut else data
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data if length else sent)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)
        self.close_connection = self.close_connection or cut

    def stream(self, ending: str) -> None:
        """Send two chunks of an answer in an HTTP body of unknown length, then `ending`."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in ("never ", "whole"):
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
            self.event(json.dumps(chunk | {"choices": [choice]}))
        if ending == "what is no JSON":
            self.event('{"choices": [')
        if ending != "a lost connection":
            self.event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def event(self, data: str) -> None:
        sent = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(sent):x}\r\n".encode() + sent + b"\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeEndpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    FakeEndpoint.seen = []
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


async def test_prompts_and_chats_in_order(address: str) -> None:
    engine = build_engine(EngineOptions("openai", base_url=address, api_key="secret"), "m")
    assert isinstance(engine, Engine)
    messages = ({"role": "system", "content": "brief"}, {"role": "user", "content": "chat"})
    sampling = Sampling(9, temperature=0.5, stop=("\n",), seed=3, logprobs=True)
    requests = [Request(prompt=f"p{n}") for n in range(20)]
    done = await engine.generate([*requests, Request(messages=messages, sampling=sampling)])
    assert [c.text for c in done] == [*(f"echo p{n}" for n in range(20)), "echo chat"]
    assert (done[0].input_tokens, done[0].output_tokens, done[0].finish_reason) == (7, 2, "length")
    assert done[-1].logprobs == [-0.5]
    path, body, key = next(seen for seen in FakeEndpoint.seen if len(seen[1]["messages"]) == 2)
    assert (path, key) == ("/v1/chat/completions", "Bearer secret")
    wanted = {"model": "m", "max_tokens": 9, "temperature": 0.5, "stop": ["\n"], "seed": 3}
    assert wanted.items() <= body.items()
    await engine.close()


async def test_the_completions_endpoint(address: str) -> None:
    engine = OpenAIEngine("m", address, "k", completion=True)
    request = Request(prompt="go on", sampling=Sampling(4, logprobs=True))
    done = (await engine.generate([request]))[0]
    assert (done.text, done.logprobs) == ("echo go on", [-0.25])
    assert FakeEndpoint.seen[0][0] == "/v1/completions"
    await engine.close()


async def test_a_busy_server_is_asked_again(address: str) -> None:
    engine = OpenAIEngine("m", address, "k")
    assert (await engine.generate([Request(prompt="flaky")]))[0].text == "echo flaky"
    assert len(FakeEndpoint.seen) == 2
    await engine.close()


@pytest.mark.parametrize(
    ("prompt", "kind", "wait", "billed"),
    [
        ("status 429 7 rate_limit", TransientError, 7.0, False),
        ("status 429 - rate_limit", TransientError, None, False),
        ("status 500 - x", TransientError, None, False),
        ("status 503 2.5 x", TransientError, 2.5, False),
        ("status 408 - x", TransientError, None, False),
        ("half", TransientError, None, True),
        ("half, and says so", TransientError, None, True),
        ("status 429 - insufficient_quota", AccessError, None, False),
        ("status 401 - x", AccessError, None, False),
        ("status 404 - x", AccessError, None, False),
        ("status 400 - x", InvalidRequestError, None, False),
        ("status 422 - x", InvalidRequestError, None, False),
        ("status 400 - context_length_exceeded", PromptTooLongError, None, False),
        ("status 403 - x", EngineError, None, False),
    ],
)
async def test_failures_say_whether_they_may_pass(
    address: str, prompt: str, kind: type[EngineError], wait: float | None, billed: bool
) -> None:
    engine = build_engine(
        EngineOptions("openai", base_url=address, api_key="k", max_retries=0), "m"
    )
    with pytest.raises(EngineError) as failed:
        await engine.generate([Request(prompt=prompt)])
    assert type(failed.value) is kind
    assert address in str(failed.value)
    if isinstance(failed.value, TransientError):
        assert (failed.value.retry_after, failed.value.may_be_billed) == (wait, billed)
    assert len(FakeEndpoint.seen) == 1  # without retries of the client
    await engine.close()


@pytest.mark.parametrize(
    "ending", ["a lost connection", "what is no JSON", "an end without a reason"]
)
async def test_a_stream_that_breaks_off_may_pass(address: str, ending: str) -> None:
    engine = OpenAIEngine("m", address, "k", max_retries=0)
    heard: list[str] = []
    with pytest.raises(TransientError) as failed:
        await engine.generate([Request(prompt=ending, on_text=heard.append)])
    assert failed.value.may_be_billed
    assert "".join(heard) == "never whole"
    await engine.close()


async def test_a_key_that_the_endpoint_says_is_in_no_message(address: str) -> None:
    engine = OpenAIEngine("m", address, "very-secret")
    with pytest.raises(AccessError, match="Incorrect API key") as failed:
        await engine.generate([Request(prompt="say the key")])
    assert "very-secret" not in "".join(traceback.format_exception(failed.value))
    await engine.close()


async def test_a_server_that_is_gone_may_come_back() -> None:
    engine = OpenAIEngine("m", "http://127.0.0.1:9/v1", "k", max_retries=0)
    with pytest.raises(TransientError):
        await engine.generate([Request(prompt="x")])
    await engine.close()


def test_what_headers_ask_to_wait() -> None:
    assert retry_after_seconds({}) is None
    assert retry_after_seconds({"retry-after": "soon"}) is None
    assert retry_after_seconds({"retry-after": "-3"}) == 0.0
    assert retry_after_seconds({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    date = {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}
    assert retry_after_seconds(date, now=1_445_412_480.0 - 30) == 30.0
    assert retry_after_seconds(date) == 0.0


async def test_a_refusal_names_model_address_and_reason(address: str) -> None:
    engine = OpenAIEngine("m", address, "k")
    good = engine.generate([Request(prompt="fine")])
    bad = engine.generate([Request(prompt="refuse"), Request(prompt="fine too")])
    results = await asyncio.gather(good, bad, return_exceptions=True)
    assert isinstance(results[0], list)
    assert isinstance(results[1], EngineError)
    for part in ("m at", address, "no such model"):
        assert part in str(results[1])
    await engine.close()
    with pytest.raises(EngineClosedError):
        await engine.generate([Request(prompt="late")])


async def test_what_an_endpoint_cannot_do_is_refused(address: str) -> None:
    engine = OpenAIEngine("m", address, "k")
    cases = [
        (Request(prompt="x", adapter="ras"), UnsupportedRequestError, "adapters"),
        (Request(prompt="x", subgraphs=()), UnsupportedRequestError, "graph tokens"),
        (Request(input_ids=(1, 2)), UnsupportedRequestError, "input_ids"),
        (Request(prompt="x", sampling=Sampling(stop=tuple("abcde"))), InvalidRequestError, "4"),
    ]
    for request, error, message in cases:
        with pytest.raises(error, match=message):
            await engine.generate([request])
    assert FakeEndpoint.seen == []
    await engine.close()


async def test_address_and_key_come_from_the_environment(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    engine = OpenAIEngine("m")
    await engine.generate([Request(prompt="x")])
    assert FakeEndpoint.seen[0][2] == "Bearer from-env"
    await engine.close()
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EngineError, match="OPENAI_API_KEY"):
        OpenAIEngine("m")


def test_the_factory_names_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="vllm, transformers, openai"):
        build_engine(EngineOptions("triton"), "m")
    with pytest.raises(UnsupportedRequestError, match="adapters"):
        build_engine(EngineOptions("openai"), "m", {"ras": "folder"})
    with pytest.raises(UnsupportedRequestError, match="model"):
        build_engine(EngineOptions("openai"))
