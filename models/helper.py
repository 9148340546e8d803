"""A helper: an adapter on the shared backbone that is trained for one small job.

The jobs are those for which the systems prompt a large model: to write the sub-query of a document
(RAS App. C.2), to decompose a question and to resolve its triplets (T²RAG §4.3), to judge what is
still missing (Trig-Nav §3.2), to say under which topic an entity belongs (TH-RAG App. A.3), to
choose topics and subtopics for a question (TH-RAG App. A.4 and A.5).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from models.component import TunedModel
from models.files.backbone import backbone_id, load_backbone
from models.files.checkpoint import (
    NotACheckpointError,
    check_backbone,
    read_component_config,
    write_component,
)
from models.formats.records import HelperTask
from models.parts.adapters import ALL_LINEAR, add_lora, load_adapter, save_adapter, trainable_bytes
from models.processors.passages import InstructionProcessor

COMPONENT = "helper"


@dataclass(frozen=True)
class InstructionTunedConfig:
    """Settings of a helper.

    Attributes:
        backbone: `smollm2`, a Hugging Face id or a folder; a causal language model.
        task: what it was trained for, a `HelperTask`.
        backbone_revision: commit or tag of a Hugging Face id.
        lora_rank, lora_alpha, lora_dropout: of the adapter.
        lora_targets: module names, or "all-linear".
        max_input_tokens: limit of the prompt.
        max_output_tokens: limit of what it writes.
    """

    backbone: str
    task: str
    backbone_revision: str | None = None
    lora_rank: int = 16
    lora_alpha: float = 32.0
    lora_dropout: float = 0.05
    lora_targets: list[str] | str = field(default=ALL_LINEAR)
    max_input_tokens: int = 512
    max_output_tokens: int = 128

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "InstructionTunedConfig":
        """Pick this dataclass's fields out of a component's config.json."""
        names = {item.name for item in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in names})

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> InstructionProcessor:
        """What turns prompts into this helper's ids."""
        return InstructionProcessor(tokenizer, self.max_input_tokens, self.max_output_tokens)


def read_helper_config(folder: str | Path, task: HelperTask) -> InstructionTunedConfig:
    """Read the settings of a helper that was trained for `task`.

    Raises:
        NotACheckpointError: no helper, or one for another task. TruncatedCheckpointError.
    """
    config = InstructionTunedConfig.from_dict(read_component_config(folder, COMPONENT))
    if config.task != task:
        raise NotACheckpointError(
            f"{folder} is a helper for the task '{config.task}', and '{task}' is needed here. "
            "Give the folder of a helper that was trained for it."
        )
    return config


class InstructionTuned(TunedModel):
    """A frozen causal backbone and a helper's adapter; use `build_instruction_tuned`."""

    def __init__(self, model: nn.Module, config: InstructionTunedConfig, identity: str) -> None:
        """Wrap a PEFT-wrapped backbone of the given `backbone_id`."""
        super().__init__(model, identity, has_adapter=True)
        self.settings = config

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a component folder: the adapter alone.

        Raises:
            CheckpointWriteError: on a full disk; an earlier folder stays as it was.
        """
        config = {"component": COMPONENT, "backbone_id": self.identity, **asdict(self.settings)}

        def write_weights(target: Path) -> None:
            save_adapter(self.model, target)  # type: ignore[arg-type]

        write_component(folder, config, write_weights, trainable_bytes(self.model))

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        backbone: str | PreTrainedModel | None = None,
        dtype: str = "auto",
        is_trainable: bool = False,
    ) -> "InstructionTuned":
        """Read a component folder; the model comes in eval mode.

        Args:
            folder: what `save_pretrained` wrote.
            backbone: a loaded model or a name in place of the one that config.json names.
            dtype: of the backbone when it is loaded here.
            is_trainable: leave the adapter trainable.

        Raises:
            NotACheckpointError, TruncatedCheckpointError, BackboneMismatchError.
        """
        stored = read_component_config(folder, COMPONENT)
        config = InstructionTunedConfig.from_dict(stored)
        base = backbone if backbone is not None else config.backbone
        check_backbone(stored, backbone_id(base), folder)
        if isinstance(base, str):
            base = load_backbone(base, dtype, config.backbone_revision)
        return cls(
            load_adapter(base, Path(folder), is_trainable), config, stored["backbone_id"]
        ).eval()


def build_instruction_tuned(
    config: InstructionTunedConfig, dtype: str = "auto", model: PreTrainedModel | None = None
) -> InstructionTuned:
    """Make an untrained helper on a backbone.

    Args:
        config: its settings.
        dtype: "auto", "float32" or "bfloat16" for the backbone; the adapter is float32 always.
        model: a loaded backbone in place of the one that `config` names.

    Raises:
        ValueError: an encoder-decoder backbone, or no adapter: engines put helpers beside each
            other on one causal backbone.
    """
    base = model or load_backbone(config.backbone, dtype, config.backbone_revision)
    if base.config.is_encoder_decoder or config.lora_rank < 1:
        raise ValueError(
            "a helper is a LoRA adapter on a causal backbone: give one that is no encoder-decoder "
            f"model, and a rank of 1 or more (rank {config.lora_rank} on {config.backbone})"
        )
    identity = backbone_id(base)
    adapted = add_lora(
        base,
        config.lora_rank,
        config.lora_alpha,
        config.lora_dropout,
        config.lora_targets,
        config.backbone,
    )
    return InstructionTuned(adapted, config, identity)
