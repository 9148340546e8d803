"""What an engine was asked for, and what can be seen of it from outside: counters and prefixes."""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import psutil

from inference.engines.contract import Completion, Engine, Request, WrappedEngine

# vLLM's own counters and sums, which need no look into its process.
VLLM_METRICS = {
    "prompt_tokens": "vllm:prompt_tokens",
    "cached_prompt_tokens": "vllm:prompt_tokens_cached",
    "queue_seconds": "vllm:request_queue_time_seconds",
    "prefill_seconds": "vllm:request_prefill_time_seconds",
    "decode_seconds": "vllm:request_decode_time_seconds",
}


class RecordedEngine(WrappedEngine):
    """An engine whose requests and completions are kept."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.inner = engine
        self.calls: list[tuple[Request, Completion]] = []

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return the engine's own."""
        completions = await self._engine.generate(requests)
        self.calls += zip(requests, completions, strict=True)
        return completions


def vllm_metrics() -> dict[str, float]:
    """Return what vLLM has counted in this process, over all requests so far; {} without vLLM."""
    if (
        "vllm.v1.metrics.reader" not in sys.modules
        and "vllm.v1.engine.async_llm" not in sys.modules
    ):
        return {}
    from vllm.v1.metrics.reader import get_metrics_snapshot

    found: dict[str, float] = defaultdict(float)
    for metric in get_metrics_snapshot():
        # A counter has a value, a histogram a sum.
        value = getattr(metric, "value", getattr(metric, "sum", None))
        if value is not None:
            found[metric.name] += float(value)
    return {name: found[theirs] for name, theirs in VLLM_METRICS.items()}


def children_seconds() -> float:
    """Return the processor seconds of this process's children: vLLM's own processes."""
    children = psutil.Process().children(recursive=True)
    times = [child.cpu_times() for child in children if child.is_running()]
    return sum(t.user + t.system for t in times)


def prompt_ids(engine: Any, request: Request) -> tuple[Any, ...] | None:
    """Return a prompt as what its keys and values depend on; None from an engine that has no ids.

    A graph's token stands for the graph: two prompts are alike up to where their graphs differ.
    """
    served = getattr(engine, "served", None)
    if served is None:
        return None
    component = served.find(request.adapter, request.soft_prompt)
    ids: list[Any] = list(component.input_ids(request))
    if component.encodes_graph(request) and component.graph_position is not None:
        ids[component.graph_position] = f"graph {request.subgraphs!r}"
    return (f"adapter {request.adapter} {request.soft_prompt}", *map(str, ids))


def repeated_prefix_tokens(prompts: Iterable[tuple[Any, ...]]) -> int:
    """Return the tokens at the beginnings of prompts that one before began with, too.

    A cache of prefixes that forgets nothing would not read these again. The first entry of each
    prompt is no token: it keeps prompts of several components apart.
    """
    known: list[tuple[Any, ...]] = []
    repeated = 0
    for prompt in prompts:
        place = bisect_left(known, prompt)
        beside = known[max(place - 1, 0) : place + 1]
        # In sorted order the longest common beginning is a neighbour's.
        common = max((_common(prompt, other) for other in beside), default=0)
        # The last token is always read: its output is what comes next.
        repeated += min(max(common - 1, 0), max(len(prompt) - 2, 0))
        insort(known, prompt)
    return repeated


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
