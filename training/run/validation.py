"""Loss and generation on held-out samples, shared by the recipes."""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import gather_object
from torch import nn
from tqdm import tqdm

from models.processors.passages import PassageProcessor
from training.recipe.samples import SampleSet, SourceT, TrainingSample, encode_samples
from training.recipe.settings import T2TSettings
from training.saving import zero_state
from training.saving.sharding import is_sharded

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


def encode_passages(
    settings: T2TSettings,
    encode_sample: Callable[[SourceT], dict[str, Any]],
    records: Sequence[SourceT],
    bad_records: int = 0,
) -> SampleSet[SourceT]:
    """Encode all records once; says how many labels lost items at their end."""
    kept, encoded, cut = encode_samples(
        records,
        encode_sample,
        settings.data.skip_cut_labels,
        show_progress=PartialState().is_main_process,
    )
    shortened = sum(sample["dropped_items"] > 0 for sample in encoded)
    if shortened:
        logger.warning(
            "%d of %d labels are longer than model.max_output_tokens=%d and lost whole items at "
            "their end",
            shortened,
            len(encoded),
            settings.model.max_output_tokens,
        )
    samples = [
        TrainingSample(
            sample_id=item["sample_id"],
            input_ids=np.asarray(item["input_ids"], dtype=np.int32),
            labels_start=item.get("labels_start", len(item["input_ids"])),
            label_ids=(
                np.asarray(item["label_ids"], dtype=np.int32) if "label_ids" in item else None
            ),
        )
        for item in encoded
    ]
    return SampleSet(kept, samples, cut, bad_records)


def generate_about(
    module: Any,
    processor: PassageProcessor[Any],
    texts: Sequence[str],
    batch_size: int,
    accelerator: Accelerator,
) -> list[str]:
    """Greedy output for each text, in the texts' order."""
    prompts = [processor.encode_prompt(text).input_ids for text in texts]
    tokenizer = processor.tokenizer

    def generate(indices: list[int]) -> list[str]:
        input_ids, mask = pad_left([prompts[i] for i in indices], int(tokenizer.pad_token_id))
        output = module.generate(
            input_ids.to(accelerator.device),
            mask.to(accelerator.device),
            max_new_tokens=processor.max_target_tokens,
            do_sample=False,
            synced_gpus=is_sharded(module),
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        start = 0 if processor.is_encoder_decoder else input_ids.shape[1]
        return [processor.decode(row) for row in output[:, start:].tolist()]

    lengths = [len(prompt) for prompt in prompts]
    return generate_texts(module, lengths, generate, batch_size, accelerator)
