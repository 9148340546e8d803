"""Attention in shapes that change at every call, as in decoding and training, each way it goes."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.harness.gpu import GpuSettings
from benchmarks.harness.settings import synchronize

# As PyTorch chooses by itself, and each way alone.
WAYS: dict[str, SDPBackend | None] = {
    "chosen": None,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
# Of SmolLM2: heads of keys, heads of queries to each, their size.
KEY_HEADS, GROUP, SIZE = 3, 3, 64
Call = Callable[[], object]


def decoding(settings: GpuSettings) -> Iterator[Call]:
    """Yield calls of one token a row over a cache that is one token longer each time."""
    rows, first, steps = (2, 8, 3) if settings.tiny else (64, 300, 30)
    room = torch.randn(2, rows, KEY_HEADS, first + steps, SIZE, device=settings.device).bfloat16()
    query = torch.randn(rows, KEY_HEADS, GROUP, SIZE, device=settings.device).bfloat16()
    for length in range(first, first + steps):
        mask = torch.ones(rows, 1, 1, length, dtype=torch.bool, device=settings.device)
        keys, values = room[:, :, :, :length]
        yield partial(F.scaled_dot_product_attention, query, keys, values, attn_mask=mask)


def training(settings: GpuSettings) -> Iterator[Call]:
    """Yield calls, with their backward passes, over batches of another length each time."""
    rows, first, steps = (2, 8, 3) if settings.tiny else (8, 300, 15)
    for length in range(first, first + 7 * steps, 7):
        shape = (rows, KEY_HEADS * GROUP, length, SIZE)
        leaves = [
            torch.randn(shape, device=settings.device).bfloat16().requires_grad_() for _ in range(3)
        ]
        mask = torch.ones(length, length, dtype=torch.bool, device=settings.device).tril()
        yield partial(_both_passes, leaves, mask)


def _both_passes(leaves: list[Tensor], mask: Tensor) -> None:
    query, keys, values = leaves
    output = F.scaled_dot_product_attention(
        query, keys, values, attn_mask=mask.expand(len(query), 1, *mask.shape)
    )
    torch.autograd.grad(output.sum(), leaves)


def milliseconds(calls: Iterator[Call], device: str) -> list[float]:
    """Return what each call takes."""
    found = []
    for call in calls:
        synchronize(device)
        start = time.perf_counter()
        call()
        synchronize(device)
        found.append(1000 * (time.perf_counter() - start))
    return found


def attention(_: Path, settings: GpuSettings, __: str) -> dict[str, Any]:
    """Return medians of milliseconds a call, by what is computed and which way.

    new: in shapes that come for the first time. again: once more in the same. error: of a way that
    this device does not go.
    """
    figures: dict[str, Any] = {}
    for name, calls in (("decoding", decoding), ("training", training)):
        figures[name] = {}
        for way, backend in WAYS.items():
            try:
                with nullcontext() if backend is None else sdpa_kernel(backend):
                    new, again = (
                        statistics.median(milliseconds(calls(settings), settings.device))
                        for _ in range(2)
                    )
                figures[name][way] = {"new": new, "again": again}
            except RuntimeError as error:
                figures[name][way] = {"error": str(error).splitlines()[0][:200]}
    return figures
