"""Memory and duration expected of a training, measured on two of its own batches."""

import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from training.samples import TrainingSample

ADAM_BYTES = 8


@dataclass(frozen=True)
class Estimate:
    """Expected cost of a training, and where the figures come from."""

    memory_bytes: int
    memory_source: str
    seconds: float
    duration_source: str

    @property
    def duration(self) -> str:
        """Hours, minutes and seconds."""
        minutes, seconds = divmod(round(self.seconds), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


def estimate_cost(
    module: nn.Module,
    collate: Callable[[list[TrainingSample]], dict[str, Any]],
    samples: Sequence[TrainingSample],
    batch_size: int,
    total_tokens: float,
    device: torch.device,
    autocast: bool = False,
) -> Estimate:
    """Run the longest batch for its memory, then an ordinary one for its time.

    Gradients are dropped again and the random state is restored, so the training that follows
    is the same as without.

    Args:
        module: on `device`, ready to train.
        total_tokens: tokens that this process will work through in the whole training.
        autocast: run in bfloat16 autocast, as the training will.
    """
    by_length = sorted(samples, key=lambda sample: sample.length)
    longest = by_length[-batch_size:]
    middle = len(by_length) // 2
    ordinary = by_length[max(0, middle - batch_size // 2) :][:batch_size]
    context = torch.autocast(device.type, torch.bfloat16) if autocast else nullcontext()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        _step(module, collate(longest), device, context)
        memory = _peak_memory(device)
        seconds = _step(module, collate(ordinary), device, context)
    tokens = sum(sample.length for sample in ordinary)
    trainable = sum(p.numel() for p in module.parameters() if p.requires_grad)
    return Estimate(
        memory_bytes=memory + ADAM_BYTES * trainable,
        memory_source="measured on the longest batch, plus the optimizer's state",
        seconds=total_tokens * seconds / tokens,
        duration_source=f"measured: {tokens / seconds:.0f} tokens/s on a batch of median length",
    )


def _step(
    module: nn.Module,
    batch: dict[str, Any],
    device: torch.device,
    context: AbstractContextManager[Any],
) -> float:
    started = time.perf_counter()
    inputs = {k: v.to(device) for k, v in batch.items() if hasattr(v, "to")}
    module.train()
    with context:
        loss = module(**inputs).loss
    if loss.requires_grad:  # not where a model is only measured
        loss.backward()
    loss.item()  # waits for the device
    module.zero_grad()
    return time.perf_counter() - started


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
