"""Loss and generation on held-out samples, shared by the recipes' own measures."""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from tqdm import tqdm

from training import zero_state
from training.samples import TrainingSample
from training.sharding import is_sharded

logger = logging.getLogger(__name__)
Collate = Callable[[list[TrainingSample]], dict[str, Any]]
GenerateBatch = Callable[[list[int]], list[str]]


@torch.no_grad()
def validation_loss(
    module: nn.Module,
    samples: Sequence[TrainingSample],
    collate: Collate,
    batch_size: int,
    accelerator: Accelerator,
) -> float:
    """Mean loss a label token over all samples and processes, without dropout."""
    was_training = module.training
    module.eval()
    # Sums, not means of means: position 0 is the loss, position 1 the label tokens.
    totals = torch.zeros(2, dtype=torch.float64, device=accelerator.device)
    lengths = [sample.length for sample in samples]
    for indices, counts in shared_batches(lengths, batch_size, accelerator, is_sharded(module)):
        chosen = [samples[index] for index in indices]
        batch = collate(chosen)
        inputs = {k: v.to(accelerator.device) for k, v in batch.items() if hasattr(v, "to")}
        with accelerator.autocast():
            loss = module(**inputs, num_items_in_batch=1).loss.double()
        if counts:
            totals[0] += loss
            totals[1] += sum(sample.label_length for sample in chosen)
    module.train(was_training)
    loss, tokens = accelerator.reduce(totals, "sum").tolist()
    return float(loss / tokens)


@torch.no_grad()
def generate_texts(
    module: nn.Module,
    lengths: Sequence[int],
    generate: GenerateBatch,
    batch_size: int,
    accelerator: Accelerator,
) -> list[str]:
    """Generate for every prompt, shared out over the processes; order is kept.

    Args:
        lengths: tokens of each prompt; prompts of about the same length run together.
        generate: texts for the prompts of the given positions.
    """
    was_training = module.training
    module.eval()
    texts: list[tuple[int, str]] = []
    # A soft prompt is read outside of every forward pass, for which ZeRO-3 would make it whole.
    with accelerator.autocast(), zero_state.whole_parameters(module):
        batches = shared_batches(lengths, batch_size, accelerator, is_sharded(module))
        hidden = not accelerator.is_main_process
        for indices, counts in tqdm(batches, desc="generating", unit=" batches", disable=hidden):
            outputs = generate(indices)
            if counts:
                texts.extend(zip(indices, outputs, strict=True))
    module.train(was_training)
    return [text for _, text in sorted(gather_object(texts))]


def length_batches(
    lengths: Sequence[int], batch_size: int, accelerator: Accelerator
) -> list[list[int]]:
    """This process's positions, longest first, cut into batches."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    mine = order[accelerator.process_index :: accelerator.num_processes]
    return [mine[start : start + batch_size] for start in range(0, len(mine), batch_size)]


def shared_batches(
    lengths: Sequence[int], batch_size: int, accelerator: Accelerator, even: bool
) -> list[tuple[list[int], bool]]:
    """This process's batches, each with whether its outcome counts.

    Args:
        even: give every process the same number of batches, as a model needs whose parameters
            are split; what fills up a short share is worked through and does not count.
    """
    batches = [(batch, True) for batch in length_batches(lengths, batch_size, accelerator)]
    if not even or not lengths:
        return batches
    largest = math.ceil(len(lengths) / accelerator.num_processes)
    missing = math.ceil(largest / batch_size) - len(batches)
    shortest = min(range(len(lengths)), key=lambda index: lengths[index])
    return [*batches, *[([shortest], False)] * missing]


def pad_left(rows: Sequence[Sequence[int]], value: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts that all end at the last position, and their attention mask; both [B, T]."""
    width = max(len(row) for row in rows)
    input_ids = [[value] * (width - len(row)) + list(row) for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(input_ids), torch.tensor(mask)
