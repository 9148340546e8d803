"""A component and its training: writes who or what a text is about. All of it is in this file.

accelerate launch tests/examples/subject_writer.py --config configs/t2t_tiny.yaml [key=value ...]
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from models.component import TunedModel
from models.files.backbone import backbone_id, load_backbone
from models.files.checkpoint import read_component_config, write_component
from models.formats.records import TriplesSample
from models.parts.adapters import ALL_LINEAR, add_lora, load_adapter, save_adapter, trainable_bytes
from models.processors.passages import PassageProcessor
from training.recipe.recipe import Recipe, shared_values
from training.recipe.settings import T2TSettings
from training.run.runner import run_command

COMPONENT = "subject_writer"


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
class SubjectWriterConfig:
    """Settings of the component."""

    backbone: str
    backbone_revision: str | None = None
    lora_rank: int = 8
    lora_alpha: float = 16.0
    lora_dropout: float = 0.0
    lora_targets: list[str] | str = field(default=ALL_LINEAR)
    max_source_tokens: int = 512
    max_target_tokens: int = 64

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> SubjectProcessor:
        """Return what training and serving make ids with."""
        return SubjectProcessor(tokenizer, self.max_source_tokens, self.max_target_tokens)


class SubjectWriter(TunedModel):
    """A frozen causal backbone and an adapter."""

    def __init__(self, model: Any, config: SubjectWriterConfig, identity: str) -> None:
        super().__init__(model, identity, has_adapter=True)
        self.settings = config

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a component folder."""
        config = {"component": COMPONENT, "backbone_id": self.identity, **asdict(self.settings)}
        write_component(
            folder, config, lambda to: save_adapter(self.model, to), trainable_bytes(self.model)
        )

    @classmethod
    def from_pretrained(cls, folder: str | Path, **_: Any) -> "SubjectWriter":
        """Read a component folder."""
        stored = read_component_config(folder, COMPONENT)
        names = SubjectWriterConfig.__dataclass_fields__
        config = SubjectWriterConfig(**{k: v for k, v in stored.items() if k in names})
        base = load_backbone(config.backbone, "float32")
        return cls(load_adapter(base, Path(folder), False), config, stored["backbone_id"]).eval()


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
        base = backbone or load_backbone(config.backbone, settings.model.dtype.value)
        lora = (config.lora_rank, config.lora_alpha, config.lora_dropout, config.lora_targets)
        return SubjectWriter(add_lora(base, *lora, config.backbone), config, backbone_id(base))


def main() -> None:
    """Run the command."""
    run_command(SubjectWriterRecipe(), str(__doc__))


if __name__ == "__main__":
    main()
