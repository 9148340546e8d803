"""A component and its training: writes who or what a text is about. All of it is in this file.

accelerate launch tests/examples/subject_writer.py --config configs/t2t_tiny.yaml [key=value ...]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from models.component import ComponentConfig, ComponentModel
from models.formats.records import TriplesSample
from models.processors.passages import PassageProcessor
from training.recipe.recipe import Recipe, shared_values
from training.recipe.settings import T2TSettings
from training.run.command import run_command


class SubjectProcessor(PassageProcessor[str]):
    """Turns a text and the names that it is about into ids."""

    def prompt(self, text: str) -> str:
        """Return the prompt."""
        return f"{text}\nAbout:"

    def label(self, items: Sequence[str]) -> str:
        """Return the label."""
        return "; ".join(items)

    def encode_sample(self, sample: TriplesSample) -> Any:
        """Return a sample's ids; its label is the subjects of its triples."""
        subjects = list(dict.fromkeys(triple.subject for triple in sample.triples))
        return self.encode(sample.id, sample.text, subjects)


@dataclass(frozen=True)
class SubjectWriterConfig(ComponentConfig):
    """Settings of the component."""

    component: ClassVar[str] = "subject_writer"

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> SubjectProcessor:
        """Return what training and serving make ids with."""
        return SubjectProcessor(tokenizer, self.max_input_tokens, self.max_output_tokens)


class SubjectWriter(ComponentModel[SubjectWriterConfig]):
    """A frozen causal backbone and an adapter."""

    config_type = SubjectWriterConfig


class SubjectWriterRecipe(Recipe[T2TSettings, TriplesSample]):
    """What of the training is this component's own."""

    script = "subject_writer.py"
    settings_type = T2TSettings
    record_type = TriplesSample
    component = SubjectWriter

    @staticmethod
    def score(outputs: Sequence[str], samples: Sequence[TriplesSample]) -> dict[str, float]:
        """Return the share of outputs that name a subject."""
        right = [o in {t.subject for t in s.triples} for o, s in zip(outputs, samples, strict=True)]
        return {"subject": sum(right) / len(right)}

    def config(
        self, settings: T2TSettings, records: Sequence[TriplesSample]
    ) -> SubjectWriterConfig:
        """Return the recipe's settings as the component's."""
        return SubjectWriterConfig(**shared_values(SubjectWriterConfig, settings.model))

    def untrained(
        self,
        settings: T2TSettings,
        config: SubjectWriterConfig,
        backbone: PreTrainedModel | None = None,
    ) -> SubjectWriter:
        """Return an untrained component."""
        return SubjectWriter.from_config(config, backbone, settings.model.dtype.value)


def main() -> None:
    """Run the command."""
    run_command(SubjectWriterRecipe(), str(__doc__))


if __name__ == "__main__":
    main()
