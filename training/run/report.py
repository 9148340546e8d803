"""What a training is expected to take, and what it shows before it starts and after it ends."""

import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.text import Text
from torch import nn
from transformers import PreTrainedTokenizerBase

from common.tables import print_table
from training.loop.guards import memory_error_named
from training.recipe.samples import SampleSet, TrainingSample

ADAM_BYTES = 8
MASKED_STYLE, LABEL_STYLE = "dim", "bold green"
LABEL_OPEN, LABEL_CLOSE = "⟦", "⟧"


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

    Raises:
        BatchMemoryError: there is no memory for the longest batch.
    """
    by_length = sorted(samples, key=lambda sample: sample.length)
    longest = by_length[-batch_size:]
    middle = len(by_length) // 2
    ordinary = by_length[max(0, middle - batch_size // 2) :][:batch_size]
    context = torch.autocast(device.type, torch.bfloat16, enabled=autocast)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        batch = collate(longest)
        with memory_error_named("before the first step", batch):
            _step(module, batch, device, context)
        memory = _peak_memory(device)
        seconds = _step(module, collate(ordinary), device, context)
    if (outcome_loss := getattr(module, "outcome_loss", None)) is not None:
        # Its figures so far are of no step.
        outcome_loss.take_sums()
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


def print_sample(sample: TrainingSample, tokenizer: PreTrainedTokenizerBase) -> None:
    """Show one decoded sample; the tokens that count in the loss stand in ⟦ ⟧."""
    ids = sample.input_ids.tolist()
    if sample.label_ids is not None:
        ids += sample.label_ids.tolist()
    first, last, _ = sample.label_place.indices(len(ids))
    label = str(tokenizer.decode(ids[first:last]))
    text = Text()
    text.append(str(tokenizer.decode(ids[:first])), style=MASKED_STYLE)
    text.append(f"{LABEL_OPEN}{label}{LABEL_CLOSE}", style=LABEL_STYLE)
    text.append(str(tokenizer.decode(ids[last:])), style=MASKED_STYLE)
    console = Console()
    console.print(
        Text(
            f"Sample {sample.sample_id}: {len(ids) - last + first} prompt tokens without loss, "
            f"{last - first} label tokens in {LABEL_OPEN} {LABEL_CLOSE}"
        )
    )
    console.print(text, soft_wrap=True)


def print_parameters(module: nn.Module) -> None:
    """Show trainable parameters by kind, layers of one kind counted together."""
    counts: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    total = sum(parameter.numel() for parameter in module.parameters())
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            kind = re.sub(r"\.\d+(?=\.)", ".*", name)
            counts[kind] += parameter.numel()
            numbers[kind] += 1
    trainable = counts.total()
    rows: list[list[Any]] = [[kind, numbers[kind], f"{n:,}"] for kind, n in counts.items()]
    rows.append(["all trainable", numbers.total(), f"{trainable:,}"])
    rows.append(["frozen", "", f"{total - trainable:,}"])
    share = 100 * trainable / max(total, 1)
    print_table(f"Trainable parameters ({share:.2f} %)", ["parameter", "tensors", "numbers"], rows)


def print_plan(data: SampleSet[Any], plan: dict[str, Any], estimate: Estimate | None) -> None:
    """Show how much there is to train on, and the memory and time it is expected to take.

    estimate: None where nothing could be measured before the model is split.
    """
    rows = [
        ["samples", f"{len(data):,}"],
        ["tokens", f"{sum(data.lengths):,} (longest sample {max(data.lengths):,})"],
        ["label tokens", f"{data.label_tokens:,}"],
        ["left out", f"{len(data.cut_label_ids)} cut labels, {data.bad_records} bad records"],
        *([key, str(value)] for key, value in plan.items()),
    ]
    if estimate is None:
        rows.append(["expected memory, duration", "not measured: the model is still to be split"])
    else:
        gib = estimate.memory_bytes / 2**30
        rows.append(["expected memory", f"{gib:.2f} GiB ({estimate.memory_source})"])
        rows.append(["expected duration", f"{estimate.duration} ({estimate.duration_source})"])
    print_table("Training", ["what", "value"], rows)


def print_metrics(metrics: dict[str, Any]) -> None:
    """Show the figures of a finished training."""
    rows = [[name, value] for name, value in metrics.items() if not isinstance(value, dict)]
    print_table("Result", ["metric", "value"], rows)
