"""Samples of the recipes that read a passage and write about it, and their generation."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from accelerate import Accelerator, PartialState

from models.passage_processor import PassageProcessor
from training.samples import SampleSet, SourceT, TrainingSample, encode_samples
from training.settings import T2TSettings
from training.sharding import is_sharded
from training.validation import generate_texts, pad_left

logger = logging.getLogger(__name__)


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
