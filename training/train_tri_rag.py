"""Trains a condition extractor on a frozen backbone (Tri-RAG §III-B, Algorithm 1).

accelerate launch training/train_tri_rag.py --config configs/tri_rag_smollm2.yaml [key=value ...]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from models.condition_extractor import (
    Adaptation,
    ConditionExtractor,
    ConditionExtractorConfig,
)
from models.files.backbone import load_tokenizer
from models.formats.prompts import CONDITIONS_FEW_SHOT_INSTRUCTION
from models.formats.records import ConditionSample
from models.parts.deep_prompt import (
    DeepPrompt,
    UnsupportedBackboneError,
    initialise_from_text,
    initialise_from_vocabulary,
)
from models.processors.passages import ConditionedPassage, by_passage
from training.recipe.recipe import Recipe, shared_values
from training.recipe.samples import choose, read_samples
from training.recipe.settings import ConfigError, Initialisation, TriRagSettings
from training.run.command import run_command
from training.run.scores import score_tri_rag

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TriRagRecipe(Recipe[TriRagSettings, ConditionedPassage]):
    """A frozen backbone with prompts or an adapter, on passages with all their triplets."""

    script = "train_tri_rag.py"
    settings_type = TriRagSettings
    record_type = ConditionSample
    component = ConditionExtractor
    score = staticmethod(score_tri_rag)

    def check(self, settings: TriRagSettings) -> None:
        """Refuse to train an adaptation that has nothing to learn; it can be measured.

        Raises:
            ConfigError: says how to measure it.
        """
        trains = settings.train.num_train_epochs > 0 or settings.train.max_steps > 0
        if settings.prompt.adaptation is Adaptation.pretrained and trains:
            raise ConfigError(
                "prompt.adaptation=pretrained learns nothing: set train.num_train_epochs=0 to "
                "measure it on data.dev, or choose soft_prompt, prefix_tuning or lora"
            )

    def read(
        self, settings: TriRagSettings, path: str, limit: int
    ) -> tuple[list[ConditionedPassage], int]:
        """Return passages with all their triplets; the limit counts passages, not records."""
        seed, skip_bad = settings.train.seed, settings.data.skip_bad_records
        records, bad = read_samples(path, ConditionSample, 0, seed, skip_bad)
        passages = by_passage(records)
        return [passages[i] for i in choose(len(passages), limit or len(passages), seed)], bad

    def config(
        self, settings: TriRagSettings, records: Sequence[ConditionedPassage]
    ) -> ConditionExtractorConfig:
        """Return the recipe's extractor in the words of models/.

        Raises:
            ConfigError: layers that are neither a word nor indices.
        """
        prompt = settings.prompt
        return ConditionExtractorConfig(
            **shared_values(ConditionExtractorConfig, settings.model, prompt),
            num_prompt_tokens=prompt.num_tokens,
            prompt_layers=prompt.layer_choice(),
        )

    def untrained(
        self, settings: TriRagSettings, config: Any, backbone: PreTrainedModel | None = None
    ) -> ConditionExtractor:
        """Return an untrained extractor; the prompt on a backbone of its own is initialised.

        Raises:
            ConfigError: a backbone or layers that layer-wise soft prompts cannot be made for.
        """
        try:
            module = super().untrained(settings, config, backbone)
        except (UnsupportedBackboneError, ValueError) as error:
            raise ConfigError(f"prompt: {error}") from error
        if backbone is None and isinstance(module.prompt, DeepPrompt):
            begin = settings.prompt.initialisation
            if begin is Initialisation.vocabulary:
                initialise_from_vocabulary(module.prompt, module.backbone)
            elif begin is Initialisation.instruction:
                tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
                text = settings.prompt.instruction or CONDITIONS_FEW_SHOT_INSTRUCTION
                initialise_from_text(module.prompt, module.backbone, tokenizer, text)
        return module


RECIPE = TriRagRecipe()


def main() -> None:
    """Run the command."""
    run_command(RECIPE, str(__doc__))


if __name__ == "__main__":
    main()
