"""The condition extractor: a frozen LLM that writes condition triplets (Tri-RAG §III-B)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.component import ComponentConfig, ComponentModel
from models.parts.adapters import backbone_autocast
from models.parts.deep_prompt import (
    DeepPrompt,
    PromptStates,
    require_supported,
    selected_layers,
    use_prompt_attention,
)
from models.parts.loss import decoder_body
from models.parts.prefix_tuning import PrefixPrompt, load_prefix, save_prefix
from models.processors.passages import ConditionProcessor

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

COMPONENT = "tri_rag"
SOFT_PROMPTS_FILE = "soft_prompts.safetensors"


class Adaptation(StrEnum):
    """How a frozen backbone is taught to write condition triplets (Tri-RAG Table IV)."""

    soft_prompt = "soft_prompt"
    prefix_tuning = "prefix_tuning"
    lora = "lora"
    pretrained = "pretrained"


@dataclass(frozen=True)
class ConditionExtractorConfig(ComponentConfig):
    """Settings of a condition extractor: `ComponentConfig`'s and these.

    Attributes:
        adaptation: a name of `Adaptation`.
        num_prompt_tokens: n, prompt tokens a layer (soft prompt and prefix tuning).
        prompt_layers: "all", "even", "odd", "last" or indices from 0 (soft prompt).
    """

    component: ClassVar[str] = COMPONENT

    adaptation: str = Adaptation.soft_prompt.value
    num_prompt_tokens: int = 32
    prompt_layers: list[int] | str = "all"

    @property
    def has_adapter(self) -> bool:
        """Whether LoRA adapters train."""
        return self.adaptation == Adaptation.lora

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> ConditionProcessor:
        """Return what turns passages into this extractor's inputs."""
        return ConditionProcessor(
            tokenizer,
            self.max_input_tokens,
            self.max_output_tokens,
            few_shot=self.adaptation == Adaptation.pretrained,
        )


class ConditionExtractor(ComponentModel[ConditionExtractorConfig]):
    """A frozen backbone and what adapts it; a soft prompt starts random until it is initialised."""

    config_type = ConditionExtractorConfig

    def __init__(
        self,
        model: nn.Module,
        config: ConditionExtractorConfig,
        identity: str,
        part: DeepPrompt | PrefixPrompt | None = None,
    ) -> None:
        """Join a backbone, PEFT-wrapped for LoRA, and a prompt of `load_prompt`."""
        super().__init__(model, config, identity)
        if not config.has_adapter:
            model.requires_grad_(False)
        self.prompt = part
        use_prompt_attention(self.backbone)

    @classmethod
    def learned_part(
        cls,
        config: ConditionExtractorConfig,
        backbone: PreTrainedModel,
        folder: Path | None = None,
    ) -> DeepPrompt | PrefixPrompt | None:
        """Return the learned prompt, new or as a folder holds it; None without one.

        Raises as `empty_prompt`.
        """
        return load_prompt(folder, config, backbone) if folder else empty_prompt(config, backbone)

    def prompt_states(self) -> PromptStates | None:
        """Keys and values of the learned prompt; None for an adaptation without one."""
        if self.prompt is None:
            return None
        with backbone_autocast(self.backbone):
            return self.prompt.states(self.backbone)

    def prompt_inputs(self) -> dict[str, Any]:
        """Return the learned prompt, over which the loss is computed too (eq. 11)."""
        return {"deep_prompt": self.prompt_states()}

    @torch.no_grad()
    def generate(self, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Tensor:
        """Generate with the backbone's own `generate`; prompts pad left."""
        prompt = self.prompt_inputs()

        def with_prompt(module: nn.Module, args: Any, keywords: Any) -> tuple[Any, Any]:
            return args, {**keywords, **prompt}

        # `generate` refuses keywords that it does not know, so they join further down.
        hook = decoder_body(self.model).register_forward_pre_hook(with_prompt, with_kwargs=True)
        try:
            return super().generate(input_ids, attention_mask, **options)
        finally:
            hook.remove()

    def gradient_checkpointing_enable(
        self, gradient_checkpointing_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Recompute activations in the backward pass, prompts and adapters included."""
        # The prompt reaches every layer past the checkpoint's inputs, which only this form allows.
        super().gradient_checkpointing_enable({"use_reentrant": False})

    def write_weights(self, folder: Path) -> None:
        """Write the prompt or the adapter, whichever was learned."""
        super().write_weights(folder)
        if isinstance(self.prompt, DeepPrompt):
            weights = {"embeddings": self.prompt.embeddings.detach().cpu().contiguous()}
            save_file(weights, folder / SOFT_PROMPTS_FILE, metadata={"format": "pt"})
        elif self.prompt is not None:
            save_prefix(self.prompt.embeddings, self.settings.backbone, folder)


def empty_prompt(
    config: ConditionExtractorConfig, backbone: PreTrainedModel
) -> DeepPrompt | PrefixPrompt | None:
    """The untrained prompt of a configuration, on the backbone's device; None without one.

    Raises:
        UnsupportedBackboneError: a decoder of another make, or more prompt tokens than it holds.
        ValueError: layers that the backbone does not have.
    """
    if config.adaptation not in (Adaptation.soft_prompt, Adaptation.prefix_tuning):
        return None
    require_supported(backbone, config.num_prompt_tokens)
    if config.adaptation == Adaptation.prefix_tuning:
        return PrefixPrompt(config.num_prompt_tokens, backbone).to(backbone.device)
    text_config = backbone.config.get_text_config(decoder=True)
    layers = selected_layers(config.prompt_layers, text_config.num_hidden_layers)
    prompt = DeepPrompt(config.num_prompt_tokens, layers, text_config.hidden_size)
    return prompt.to(backbone.device)


def load_prompt(
    folder: Path, config: ConditionExtractorConfig, backbone: PreTrainedModel
) -> DeepPrompt | PrefixPrompt | None:
    """The trained prompt of a component folder; None for an adaptation without one."""
    prompt = empty_prompt(config, backbone)
    if isinstance(prompt, PrefixPrompt):
        load_prefix(prompt, folder)
    elif prompt is not None:
        with torch.no_grad():
            prompt.embeddings.copy_(load_file(folder / SOFT_PROMPTS_FILE)["embeddings"])
    return prompt
