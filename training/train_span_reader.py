"""Trains an extractive reader: an encoder that points at what a passage answers, or at nothing.

accelerate launch training/train_span_reader.py --config configs/span_reader_minilm.yaml \\
    [key=value ...]

Its samples are those of the reader that writes, which data_gen/build_reading.py makes; those whose
label is facts answer nothing here: no single span of their passage answers the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import nn

from models.files.text_table import TextTable
from models.formats.helpers import NOTHING
from models.formats.reading import parse_reading
from models.formats.records import InstructionSample
from models.span_reader import SpanReader, SpanReaderConfig
from training.recipe.recipe import Recipe, shared_values
from training.recipe.samples import TrainingSample
from training.recipe.settings import ConfigError, T2TSettings
from training.recipe.spans import SpanCollator, span_samples
from training.run.command import run_command
from training.run.scores import score_helper

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TASK = "read"


class SpanReaderRecipe(Recipe[T2TSettings, InstructionSample]):
    """An adapter and an answer layer on a frozen encoder."""

    script = "train_span_reader.py"
    settings_type = T2TSettings
    record_type = InstructionSample
    component = SpanReader
    score = staticmethod(score_helper)

    def read(
        self, settings: T2TSettings, path: str, limit: int
    ) -> tuple[list[InstructionSample], int]:
        """Return the samples, facts as nothing, and the number of broken ones.

        Raises:
            ConfigError: samples of another task.
        """
        records, bad = super().read(settings, path, limit)
        other = next((record for record in records if record.task != TASK), None)
        if other is not None:
            raise ConfigError(
                f"{path}: sample {other.id!r} is of the task '{other.task}', and '{TASK}' is "
                "needed. Build samples with data_gen/build_reading.py"
            )
        return [_pointed_at(record) for record in records], bad

    def config(
        self, settings: T2TSettings, records: Sequence[InstructionSample]
    ) -> SpanReaderConfig:
        """Return the recipe's reader in the words of models/."""
        return SpanReaderConfig(**shared_values(SpanReaderConfig, settings.model))

    def build(self, settings: T2TSettings, backbone: PreTrainedModel) -> nn.Module:
        """Raises ConfigError: what a training takes is not estimated for an encoder."""
        raise ConfigError(
            "an extractive reader has no estimate: its training takes under 3 GiB on a CPU"
        )

    def samples(self, encoded: Sequence[Any], table: TextTable | None) -> list[TrainingSample]:
        """Return encoded records as arrays."""
        return span_samples(encoded)

    def collator(
        self, tokenizer: PreTrainedTokenizerBase, features: npt.NDArray[np.floating] | None
    ) -> SpanCollator:
        """Return what makes batches of samples."""
        return SpanCollator(int(tokenizer.pad_token_id))


def _pointed_at(record: InstructionSample) -> InstructionSample:
    """Return a sample with no facts in its label."""
    has_facts = bool(parse_reading(record.label).facts)
    return replace(record, label=NOTHING) if has_facts else record


RECIPE = SpanReaderRecipe()


def main() -> None:
    """Run the command."""
    run_command(RECIPE, str(__doc__))


if __name__ == "__main__":
    main()
