"""A real HTTP server on the loopback address that speaks the chat protocol and fails as told.

Answers depend on nothing but the request, failures on the request and how often it came, so that
a run with failures can be compared with one without.
"""

import hashlib
import json
import math
import re
import socket
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULTS = (
    "busy",
    "busy, wait",
    "busy, wait until",
    "server error",
    "reset",
    "half a body",
    "half a JSON",
    "no choice",
    "a page",
    "hang",
)
HANG_SECONDS = 20.0
WAIT_SECONDS = 0.2
INPUT_TOKENS, OUTPUT_TOKENS = 100, 10


def draw(key: str) -> float:
    """A number in [0, 1) that depends on the key alone."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64


def teacher_text(prompt: str, temperature: float) -> str:
    """What the teacher writes; of some prompts the first try is no good, of a few both are."""
    luck = draw(prompt) if temperature == 0 else draw(f"{prompt}/again") / 2
    if "HELPFUL" in prompt:
        return "Documents one and two." if luck > 0.9 else "1,2"
    if prompt.endswith("Answer:"):
        return " Montreal" if luck > 0.7 else " Toronto"
    if luck > 0.95:
        return ""
    if luck > 0.9:
        return "Wer hat den Film gedreht?"
    title = re.findall(r"Current Document \((.*)\):", prompt)[-1]
    number = int(draw(prompt) * 1000)
    return f'Sub-query: "What does {title} tell about case {number}?"'


@dataclass
class Endpoint:
    """The server's address, what it is told to do, and what it saw.

    fault_share: of the requests. delay: seconds before an answer. allowed: answers after which
    the others wait; those under way come. answered: how often each request was answered in full,
    by its body. waits_broken: requests that came again before the
    wait that they were told was over.
    """

    fault_share: float = 0.0
    faults: tuple[str, ...] = FAULTS
    delay: float = 0.0
    allowed: float = math.inf
    refuse_all: str = ""
    port: int = 0
    received: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    fault_counts: Counter[str] = field(default_factory=Counter)
    not_before: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits_broken: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    headers: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def environment(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": "secret-of-the-tests"}

    @property
    def paid_twice(self) -> int:
        """Answers beyond the first of each request."""
        return sum(count - 1 for count in self.answered.values())

    @property
    def answers(self) -> int:
        """Answers so far, repeated ones too."""
        with self.lock:
            return sum(self.answered.values())

    def wait_to_answer(self) -> None:
        """Wait the delay, and then until one more answer is allowed."""
        self.over.wait(self.delay)
        while self.answers >= self.allowed and not self.over.wait(0.01):
            pass

    def fault_of(self, key: str) -> str:
        """Note a request; how it is to fail, or nothing."""
        with self.lock:
            self.received[key] += 1
            self.waits_broken += time.monotonic() < self.not_before[key]
            luck = draw(f"{key}/{self.received[key]}")
            if luck >= self.fault_share:
                return ""
            fault = self.faults[int(luck / self.fault_share * len(self.faults))]
            self.fault_counts[fault] += 1
            return fault


class Handler(BaseHTTPRequestHandler):
    """Serves one `Endpoint`."""

    protocol_version = "HTTP/1.1"
    endpoint: Endpoint

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        key, endpoint = raw.decode(), self.endpoint
        endpoint.headers.append(self.headers["Authorization"])
        with endpoint.lock:
            endpoint.in_flight += 1
            endpoint.most_in_flight = max(endpoint.most_in_flight, endpoint.in_flight)
        try:
            endpoint.wait_to_answer()
            self.respond(key, endpoint.fault_of(key))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client was killed
        finally:
            with endpoint.lock:
                endpoint.in_flight -= 1

    def respond(self, key: str, fault: str) -> None:
        if self.endpoint.refuse_all:
            status, code = self.endpoint.refuse_all.split()
            self.reply(int(status), {"error": {"message": f"no {code}", "code": code}})
        elif fault.startswith("busy"):
            self.busy(key, fault)
        elif fault == "server error":
            self.reply(500 if draw(key) < 0.5 else 503, {"error": {"message": "failed"}})
        elif fault == "reset":
            self.reset()
        elif fault == "hang":
            self.endpoint.over.wait(HANG_SECONDS)
            self.close_connection = True
        elif fault == "a page":
            self.send(200, b"<html>We will be back soon</html>", "text/html")
        elif fault == "no choice":
            self.reply(200, {**answer("", 0), "choices": []})
        else:
            self.answer(key, fault)

    def answer(self, key: str, fault: str) -> None:
        body = json.loads(key)
        text = teacher_text(body["messages"][-1]["content"], body["temperature"])
        data = json.dumps(answer(text, OUTPUT_TOKENS)).encode()
        if fault == "half a JSON":
            self.send(200, data[: len(data) // 2])
        elif fault == "half a body":
            self.send(200, data, cut=len(data) // 2)
        else:
            self.send(200, data)
            with self.endpoint.lock:
                self.endpoint.answered[key] += 1

    def busy(self, key: str, fault: str) -> None:
        headers = {}
        if fault == "busy, wait":
            headers = {"Retry-After": str(WAIT_SECONDS)}
            self.endpoint.not_before[key] = time.monotonic() + WAIT_SECONDS
        elif fault == "busy, wait until":  # a date holds whole seconds, so this one is past
            headers = {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}
        self.reply(429, {"error": {"message": "slow down", "code": "rate_limit"}}, headers)

    def reset(self) -> None:
        """Close the connection so that the client gets a reset in place of an end."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True

    def reply(
        self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        self.send(status, json.dumps(body).encode(), headers=headers)

    def send(
        self,
        status: int,
        data: bytes,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
        cut: int | None = None,
    ) -> None:
        self.send_response(status)
        sent = {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[:cut])
        self.close_connection = self.close_connection or cut is not None

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""


def answer(text: str, output_tokens: int) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": INPUT_TOKENS, "completion_tokens": output_tokens},
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error of the server."""


@contextmanager
def served(**settings: Any) -> Iterator[Endpoint]:
    """An endpoint that runs until the block ends."""
    endpoint = Endpoint(**settings)
    handler = type("BoundHandler", (Handler,), {"endpoint": endpoint})
    server = _Server(("127.0.0.1", 0), handler)
    endpoint.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
