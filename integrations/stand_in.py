"""A stand-in for a Trivium server, which the tests of the integrations ask; it needs no model.

It searches a world of four passages and reads their facts by a rule. Like the server it refuses
fields that it does not know. `TRIVIUM_TEST_URL` (with /v1) has the tests that script no failures
ask a running server instead; `TRIVIUM_TEST_LOOP`, `TRIVIUM_TEST_COMPONENT` and
`TRIVIUM_TEST_QUESTION` say which loop and component, and a question that finds three passages.
"""

import json
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

import pytest

LOOP = os.environ.get("TRIVIUM_TEST_LOOP", "ras")
COMPONENT = os.environ.get("TRIVIUM_TEST_COMPONENT", "t2t")
QUESTION = os.environ.get("TRIVIUM_TEST_QUESTION", "Where was the director of Dawn born?")
MODELS = {"smollm2": "backbone", "t2t": "component", "ras": "loop", "t2rag": "loop"}
PASSAGES = {
    "p1": ("Dawn", "Dawn was directed by Ana Lis. It ran for a year."),
    "p2": ("Dawn (novel)", "Dawn is a novel."),
    "p3": ("Ana Lis", "Ana Lis was born in Brill."),
    "p4": ("Brill", "Brill is in Vorland."),
}
STEPS = (("Who directed Dawn?", ("p1", "p2")), ("Where was Ana Lis born?", ("p3", "p1", "p4")))
FACT = re.compile(r"(.+?) (was directed by|was born in|is in) (.+)\.")
# What OpenAI's clients send, and the server's own.
CHAT_FIELDS = {"model", "messages", "stream", "stream_options", "evidence_only"}


@dataclass(frozen=True)
class Reply:
    """An answer that the stand-in gives in place of its own.

    cut: the connection closes before the body is whole.
    """

    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


def refusal(status: int, message: str, **headers: str) -> Reply:
    """Return OpenAI's error object as a reply; Retry_After stands for the header Retry-After."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(body), named)


class StandIn(ThreadingHTTPServer):
    """The server: `replies` are given one a POST, then its own answers; `bodies` came by POST.

    address: with /v1. api_key: what clients must send, where set. together: the most POSTs that
    were answered at once.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.api_key: str | None = None
        self.replies: deque[Reply | None] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.at_once = 0
        self.together = 0

    def server_bind(self) -> None:
        """Bind as any TCP server; HTTPServer would also ask the network for this machine's name."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report what a handler raised, unless the client has gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def stand_in_server() -> Iterator[StandIn]:
    """Serve at a free port of this machine."""
    with StandIn() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A server that wants no key, and whose failures a test may script."""
    monkeypatch.delenv("TRIVIUM_API_KEY", raising=False)
    with stand_in_server() as server:
        yield server


@pytest.fixture
def address() -> Iterator[str]:
    """Where tests ask that hold for every server; with /v1."""
    if running := os.environ.get("TRIVIUM_TEST_URL"):
        yield running
    else:
        with stand_in_server() as server:
            yield server.address


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            return self._send(refusal(404, f"there is no {self.path}"))
        data = [{"id": name, "object": "model", "kind": kind} for name, kind in MODELS.items()]
        return self._send(Reply(body=json.dumps({"object": "list", "data": data})))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            scripted = self.server.replies.popleft() if self.server.replies else None
            self.server.at_once += 1
            self.server.together = max(self.server.together, self.server.at_once)
        try:
            self._send(scripted or self._answer(body))
        finally:
            with self.server.lock:
                self.server.at_once -= 1

    def _answer(self, body: dict[str, Any]) -> Reply:
        key = self.server.api_key
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            return refusal(401, "no such key")
        if body["model"] not in MODELS:
            return refusal(404, f"model: there is no {body['model']!r}")
        if self.path == "/v1/triples":
            return Reply(body=json.dumps(triples_answer(body["input"])))
        if self.path != "/v1/chat/completions":
            return refusal(404, f"there is no {self.path}")
        if unknown := body.keys() - CHAT_FIELDS:
            return refusal(400, f"{min(unknown)}: there is no such field")
        if body.get("stream"):
            return Reply(body=streamed(body), headers={"Content-Type": "text/event-stream"})
        return Reply(body=json.dumps(chat_answer(body)))

    def _send(self, reply: Reply) -> None:
        body = reply.body.encode()
        self.send_response(reply.status)
        headers = {"Content-Type": "application/json", **reply.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) + reply.cut))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def chat_answer(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole answer of a loop, with the evidence where it alone is asked for."""
    evidence = {"evidence": _evidence()} if body.get("evidence_only") else {}
    content = "Dawn was directed by Ana Lis." if evidence else "Brill"
    message = {
        "role": "assistant",
        "content": content,
        "reasoning_content": "1. Who directed Dawn?",
        "annotations": [_citation()],
    }
    return {
        **_frame("chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _usage(),
        "trace": {"question": body["messages"][-1]["content"], "steps": _steps(), "error": None},
        **evidence,
    }


def streamed(body: Mapping[str, Any]) -> str:
    """Return the same as server-sent events."""
    steps = [
        {"reasoning_content": f"{number}. {subquery}\n"}
        for number, (subquery, _) in enumerate(STEPS, start=1)
    ]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *steps]
    deltas += [{"content": "Br"}, {"content": "ill"}, {"annotations": [_citation()]}, {}]
    chunks: list[dict[str, Any]] = []
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        chunks.append({**_frame("chat.completion.chunk"), "choices": [choice]})
    if body.get("stream_options", {}).get("include_usage"):
        chunks.append({**_frame("chat.completion.chunk"), "choices": [], "usage": _usage()})
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([": waiting\n\n", *events, "data: [DONE]\n\n"])


def triples_answer(texts: list[str | dict[str, str]]) -> dict[str, Any]:
    """Return the facts of texts, the last first: a client must go by their index."""
    data = []
    for index, text in enumerate(texts):
        sentences = _sentences(text if isinstance(text, str) else text["text"])
        facts = [found.groups() for found in map(FACT.fullmatch, sentences) if found]
        malformed = sum("??" in sentence for sentence in sentences)
        data.append({"index": index, "triples": facts, "malformed": malformed})
    return {"object": "list", "model": "t2t", "data": data[::-1], "usage": _usage()}


def _evidence() -> dict[str, Any]:
    found = dict.fromkeys(name for _, names in STEPS for name in names)
    first = {
        name: min(number for number, (_, names) in enumerate(STEPS, start=1) if name in names)
        for name in found
    }
    triples = [
        dict(zip(("subject", "predicate", "object"), fact.groups(), strict=True))
        | {"passage": name, "sentence": sentence}
        for name in found
        for sentence in _sentences(PASSAGES[name][1])
        if (fact := FACT.fullmatch(sentence))
    ]
    unstated = {"subject": "Dawn", "predicate": "kind", "object": "film"}
    return {
        "passages": [
            {
                "id": name,
                "title": PASSAGES[name][0],
                "text": PASSAGES[name][1],
                "url": f"http://127.0.0.1/passages/{name}",
                "step": first[name],
            }
            for name in found
        ],
        "triples": [*triples, {**unstated, "passage": None, "sentence": None}],
    }


def _steps() -> list[dict[str, Any]]:
    return [
        {"subquery": subquery, "passages": [{"id": n, "title": PASSAGES[n][0]} for n in names]}
        for subquery, names in STEPS
    ]


def _citation() -> dict[str, Any]:
    url = {"url": "http://127.0.0.1/passages/p3?sentence=0", "title": "Ana Lis"}
    return {"type": "url_citation", "url_citation": {**url, "start_index": 0, "end_index": 5}}


def _frame(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "ras"}


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in re.findall(r"[^.]+\.", text)]
