"""Loss, generation and scores on held-out samples, the same for all recipes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from models.formats.helpers import NOTHING
from models.graph_llm import GraphLLM
from models.span_reader import SpanReader
from training.recipe.collator import Collator
from training.recipe.samples import SampleSet, SourceT, TrainingSample, choose
from training.recipe.settings import T2TSettings
from training.saving import zero_state
from training.saving.sharding import is_sharded

Validator = Callable[[Accelerator], dict[str, float]]


@torch.no_grad()
def validation_loss(
    module: nn.Module,
    samples: Sequence[TrainingSample],
    collate: Collator,
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


@dataclass(frozen=True)
class BatchGenerator:
    """Writes greedily what a module answers to the prompts of samples."""

    module: Any
    tokenizer: PreTrainedTokenizerBase
    collate: Collator
    max_new_tokens: int

    def __call__(self, samples: Sequence[TrainingSample], device: torch.device) -> list[str]:
        """Return a text for each sample, special tokens left out."""
        prompts = [sample.prompt_ids for sample in samples]
        input_ids, mask = pad_left(prompts, self.collate.pad_token_id)
        graph = self.collate.graphs(samples)
        output = self.module.generate(
            input_ids.to(device),
            mask.to(device),
            **({} if graph is None else {"graph": graph.to(device)}),
            max_new_tokens=self.max_new_tokens,
            do_sample=False,
            synced_gpus=is_sharded(self.module),
            eos_token_id=self.tokenizer.eos_token_id,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        # Where the prompt is given as embeddings or to an encoder, new tokens alone come back.
        new_alone = isinstance(self.module, GraphLLM) or self.module.config.is_encoder_decoder
        rows = output[:, 0 if new_alone else input_ids.shape[1] :].tolist()
        texts = self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        return [str(text).strip() for text in texts]


@dataclass(frozen=True)
class SpanWriter:
    """Writes what an extractive reader points at, as the reader that writes would."""

    module: SpanReader
    tokenizer: PreTrainedTokenizerBase
    collate: Any

    def __call__(self, samples: Sequence[TrainingSample], device: torch.device) -> list[str]:
        """Return the answer of each sample's passage, the word for none where it gives none."""
        batch = self.collate(samples)
        names = ("input_ids", "token_type_ids", "attention_mask")
        spans, margins = self.module.best_spans(*(batch[name].to(device) for name in names))
        least = self.module.settings.least_margin
        return [
            str(self.tokenizer.decode(sample.input_ids[start : end + 1].tolist()))
            if margin > least
            else NOTHING
            for sample, (start, end), margin in zip(
                samples, spans.tolist(), margins.tolist(), strict=True
            )
        ]


@torch.no_grad()
def generate_texts(
    generate: BatchGenerator | SpanWriter,
    samples: Sequence[TrainingSample],
    batch_size: int,
    accelerator: Accelerator,
) -> list[str]:
    """Generate for every sample's prompt, shared out over the processes; order is kept.

    Prompts of about the same length run together.
    """
    module = generate.module
    was_training = module.training
    module.eval()
    lengths = [len(sample.prompt_ids) for sample in samples]
    texts: list[tuple[int, str]] = []
    # A soft prompt is read outside of every forward pass, for which ZeRO-3 would make it whole.
    with accelerator.autocast(), zero_state.whole_parameters(module):
        batches = shared_batches(lengths, batch_size, accelerator, is_sharded(module))
        hidden = not accelerator.is_main_process
        for indices, counts in tqdm(batches, desc="generating", unit=" batches", disable=hidden):
            outputs = generate([samples[index] for index in indices], accelerator.device)
            if counts:
                texts.extend(zip(indices, outputs, strict=True))
    module.train(was_training)
    return [text for _, text in sorted(gather_object(texts))]


def shared_batches(
    lengths: Sequence[int], batch_size: int, accelerator: Accelerator, even: bool
) -> list[tuple[list[int], bool]]:
    """This process's batches of positions, longest first, each with whether its outcome counts.

    Args:
        even: give every process the same number of batches, as a model needs whose parameters
            are split; what fills up a short share is worked through and does not count.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    mine = order[accelerator.process_index :: accelerator.num_processes]
    starts = range(0, len(mine), batch_size)
    batches = [(mine[start : start + batch_size], True) for start in starts]
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


def make_validator(
    score: Callable[[Sequence[str], Sequence[SourceT]], dict[str, float]],
    settings: T2TSettings,
    module: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    collate: Collator,
    dev: SampleSet[SourceT],
) -> Validator:
    """Return what measures the loss of all held-out samples and scores the outputs of a few.

    score: figures of outputs and their records.
    """
    positions = choose(len(dev), settings.validation.samples, settings.train.seed)
    chosen = [dev.samples[position] for position in positions]
    records = [dev.records[position] for position in positions]
    batch_size = settings.validation.batch_size
    generate: BatchGenerator | SpanWriter
    if isinstance(module, SpanReader):
        generate = SpanWriter(module, tokenizer, collate)
    else:
        generate = BatchGenerator(module, tokenizer, collate, settings.model.max_output_tokens)

    def validate(accelerator: Accelerator) -> dict[str, float]:
        figures = {"loss": validation_loss(module, dev.samples, collate, batch_size, accelerator)}
        if chosen:
            outputs = generate_texts(generate, chosen, batch_size, accelerator)
            figures.update(score(outputs, records))
        return figures

    return validate
