"""Validation of the recipes that read one text and write about it: loss, then scores of outputs."""

from collections.abc import Callable, Sequence
from typing import Any

from accelerate import Accelerator
from torch import nn

from models.passage_processor import PassageProcessor
from training.collators import Collator
from training.passage_samples import generate_about
from training.samples import SampleSet, SourceT, choose
from training.settings import T2TSettings
from training.setup import Validator
from training.validation import validation_loss


def passage_validator(
    settings: T2TSettings,
    module: nn.Module,
    processor: PassageProcessor[Any],
    collate: Collator,
    dev: SampleSet[SourceT],
    text_of: Callable[[SourceT], str],
    score: Callable[[Sequence[str], Sequence[SourceT]], dict[str, float]],
) -> Validator:
    """Measures the loss of all held-out samples and scores the outputs of a few.

    text_of: what the module reads of a record. score: figures of outputs and their records.
    """
    positions = choose(len(dev), settings.validation.samples, settings.train.seed)
    chosen = [dev.records[position] for position in positions]
    batch_size = settings.validation.batch_size

    def validate(accelerator: Accelerator) -> dict[str, float]:
        figures = {"loss": validation_loss(module, dev.samples, collate, batch_size, accelerator)}
        if chosen:
            texts = list(map(text_of, chosen))
            outputs = generate_about(module, processor, texts, batch_size, accelerator)
            figures.update(score(outputs, chosen))
        return figures

    return validate
