"""Counts of a server for Prometheus, and for the table at its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from inference.engines.contract import Completion
from inference.loops.trace import Trace
from inference.serving.answers import Counts

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300, 600)
ROUNDS = (0, 1, 2, 3, 4, 5, 8, 12)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """Everything that a server counts, each server on its own.

    Labels hold names of models alone, never what was asked.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "trivium_requests",
            "Requests by what came of them",
            ["model", "outcome"],
            registry=registry,
        )
        self._tokens = Counter(
            "trivium_tokens",
            "Tokens read and written for answered requests",
            ["model", "kind"],
            registry=registry,
        )
        self._running = Gauge(
            "trivium_running_requests", "Requests taken and not yet answered", registry=registry
        )
        self._seconds = Histogram(
            "trivium_request_seconds",
            "Seconds to the end of an answer",
            ["model"],
            buckets=SECONDS,
            registry=registry,
        )
        self._stages = Counter(
            "trivium_loop_stage_seconds",
            "Seconds of loops by stage, waiting included",
            ["stage"],
            registry=registry,
        )
        self._rounds = Histogram(
            "trivium_loop_rounds",
            "Retrievals a question",
            ["model"],
            buckets=ROUNDS,
            registry=registry,
        )

    @contextmanager
    def running(self, model: str) -> Iterator[None]:
        """Count a request for a model while the block runs."""
        started = time.perf_counter()
        self._running.inc()
        try:
            yield
        finally:
            self._running.dec()
            self._seconds.labels(model).observe(time.perf_counter() - started)

    def completed(self, model: str, done: list[Completion]) -> None:
        """Count a component's answer."""
        read = sum(one.input_tokens for one in done)
        self._answered(model, read, sum(one.output_tokens for one in done))

    def answered(self, model: str, trace: Trace) -> None:
        """Count a loop's answer."""
        self._answered(model, trace.bill.input_tokens, trace.bill.output_tokens)
        self._rounds.labels(model).observe(len(trace.steps))
        for stage, seconds in trace.bill.seconds.items():
            self._stages.labels(stage).inc(seconds)

    def _answered(self, model: str, read: int, written: int) -> None:
        self.counts.answered += 1
        self.counts.input_tokens += read
        self.counts.output_tokens += written
        self._requests.labels(model, "answered").inc()
        self._tokens.labels(model, "input").inc(read)
        self._tokens.labels(model, "output").inc(written)

    def refused(self) -> None:
        """Count a request that was not taken: its model need not be one."""
        self.counts.refused += 1
        self._requests.labels("", "refused").inc()

    def failed(self) -> None:
        """Count an answer that is an error of the server or its engine."""
        self.counts.failed += 1
        self._requests.labels("", "failed").inc()

    def abandoned(self, model: str) -> None:
        """Count a request whose client went before the answer came."""
        self.counts.abandoned += 1
        self._requests.labels(model, "abandoned").inc()

    def text(self) -> bytes:
        """Return all of it in Prometheus' format."""
        return generate_latest(self._registry)
