"""What a training shows before it starts and after it ends."""

import re
from collections import Counter
from typing import Any

from rich.console import Console
from rich.text import Text
from torch import nn
from transformers import PreTrainedTokenizerBase

from evaluation.report import print_table
from training.estimate import Estimate
from training.samples import SampleSet, TrainingSample

MASKED_STYLE, LABEL_STYLE = "dim", "bold green"
LABEL_OPEN, LABEL_CLOSE = "⟦", "⟧"


def print_sample(sample: TrainingSample, tokenizer: PreTrainedTokenizerBase) -> None:
    """Show one decoded sample; the tokens that count in the loss stand in ⟦ ⟧."""
    prompt_ids = sample.input_ids[: sample.labels_start]
    label_ids = sample.input_ids[sample.labels_start :]
    if sample.label_ids is not None:
        prompt_ids, label_ids = sample.input_ids, sample.label_ids
    text = Text()
    text.append(str(tokenizer.decode(prompt_ids.tolist())), style=MASKED_STYLE)
    label = str(tokenizer.decode(label_ids.tolist()))
    text.append(f"{LABEL_OPEN}{label}{LABEL_CLOSE}", style=LABEL_STYLE)
    console = Console()
    console.print(
        Text(
            f"Sample {sample.sample_id}: {len(prompt_ids)} prompt tokens without loss, "
            f"{len(label_ids)} label tokens in {LABEL_OPEN} {LABEL_CLOSE}"
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
