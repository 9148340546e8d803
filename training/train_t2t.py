"""Trains a text-to-triples model (RAS App. D.1).

accelerate launch training/train_t2t.py --config configs/t2t_smollm2.yaml [key=value ...]
"""

from collections.abc import Sequence

from models.formats.records import TriplesSample
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from training.fit.sketch import backbone_config
from training.recipe.recipe import Recipe, shared_values
from training.recipe.settings import T2TSettings
from training.run.command import run_command
from training.run.scores import score_t2t


class T2TRecipe(Recipe[T2TSettings, TriplesSample]):
    """A causal or an encoder-decoder model, all its weights or an adapter."""

    script = "train_t2t.py"
    settings_type = T2TSettings
    record_type = TriplesSample
    component = TextToTriples
    score = staticmethod(score_t2t)

    def config(
        self, settings: T2TSettings, records: Sequence[TriplesSample]
    ) -> TextToTriplesConfig:
        """Return the recipe's model in the words of models/."""
        model = settings.model
        form = backbone_config(model.backbone, model.revision)
        return TextToTriplesConfig(
            **shared_values(TextToTriplesConfig, model),
            is_encoder_decoder=bool(form.is_encoder_decoder),
        )

    def adapter_names(self, config: TextToTriplesConfig) -> tuple[str, ...]:
        """Return what trajectories call the component; an encoder-decoder one draws in none."""
        return () if config.is_encoder_decoder else ("t2t",)

    def stored_dtype(self, settings: T2TSettings) -> str:
        """Return the recipe's dtype; a model that trains whole keeps that of its own weights."""
        return settings.model.dtype.value if settings.model.lora.rank else "auto"


RECIPE = T2TRecipe()


def main() -> None:
    """Run the command."""
    run_command(RECIPE, str(__doc__))


if __name__ == "__main__":
    main()
