"""Settings of a condition extractor, as a recipe and a component folder's config.json give them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from models.lora import ALL_LINEAR


class Adaptation(StrEnum):
    """How a frozen backbone is taught to write condition triplets (Tri-RAG Table IV)."""

    soft_prompt = "soft_prompt"
    prefix_tuning = "prefix_tuning"
    lora = "lora"
    pretrained = "pretrained"


@dataclass(frozen=True)
class ConditionExtractorConfig:
    """Settings of a condition extractor.

    Attributes:
        backbone: `smollm2`, a Hugging Face id or a folder; a causal language model.
        backbone_revision: commit or tag of a Hugging Face id.
        adaptation: a name of `Adaptation`.
        num_prompt_tokens: n, prompt tokens a layer (soft prompt and prefix tuning).
        prompt_layers: "all", "even", "odd", "last" or indices from 0 (soft prompt).
        lora_rank, lora_alpha, lora_dropout: of LoRA.
        lora_targets: module names, or "all-linear".
        max_source_tokens: limit of the input, passage included.
        max_target_tokens: limit of the triplets.
    """

    backbone: str
    backbone_revision: str | None = None
    adaptation: str = Adaptation.soft_prompt.value
    num_prompt_tokens: int = 32
    prompt_layers: list[int] | str = "all"
    lora_rank: int = 16
    lora_alpha: float = 32.0
    lora_dropout: float = 0.05
    lora_targets: list[str] | str = field(default=ALL_LINEAR)
    max_source_tokens: int = 512
    max_target_tokens: int = 256

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ConditionExtractorConfig":
        """Pick this dataclass's fields out of a component's config.json."""
        names = {item.name for item in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in names})
