"""The condition extractor: a frozen LLM that writes condition triplets (Tri-RAG §III-B)."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import CausalLMOutput

from models.files.backbone import backbone_id, load_backbone
from models.files.checkpoint import check_backbone, read_component_config, write_component
from models.kernels.cpu_lora import use_cpu_lora
from models.parts.adapters import (
    ALL_LINEAR,
    add_lora,
    backbone_autocast,
    causal_loss,
    last_position,
    leave_casting_to_autocast,
    load_adapter,
    save_adapter,
    trainable_bytes,
)
from models.parts.deep_prompt import (
    DeepPrompt,
    PromptStates,
    require_supported,
    selected_layers,
    use_prompt_attention,
)
from models.parts.loss import decoder_body, unwrapped
from models.parts.prefix_tuning import PrefixPrompt, load_prefix, save_prefix
from models.processors.passages import ConditionProcessor

COMPONENT = "tri_rag"
SOFT_PROMPTS_FILE = "soft_prompts.safetensors"


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

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> ConditionProcessor:
        """Return the processor that makes this extractor's inputs."""
        return ConditionProcessor(
            tokenizer,
            self.max_source_tokens,
            self.max_target_tokens,
            few_shot=self.adaptation == Adaptation.pretrained,
        )


class ConditionExtractor(nn.Module):
    """A frozen backbone and what adapts it; use `build_condition_extractor` to make one."""

    # transformers.Trainer then hands num_items_in_batch to forward.
    accepts_loss_kwargs = True
    supports_gradient_checkpointing = True

    def __init__(
        self,
        model: nn.Module,
        prompt: DeepPrompt | PrefixPrompt | None,
        config: ConditionExtractorConfig,
        identity: str,
    ) -> None:
        """Join a backbone of the given `backbone_id` (PEFT-wrapped for LoRA) and a prompt."""
        super().__init__()
        self.model = model
        self.prompt = prompt
        self.settings = config
        self.identity = identity
        if config.adaptation == Adaptation.lora and self.backbone.dtype != torch.float32:
            leave_casting_to_autocast(model)
            use_cpu_lora(model)
        use_prompt_attention(self.backbone)

    @property
    def config(self) -> Any:
        """The backbone's configuration, where transformers looks for it."""
        return self.backbone.config

    @property
    def backbone(self) -> PreTrainedModel:
        """The language model itself, adapters inside."""
        return unwrapped(self.model)

    def prompt_states(self) -> PromptStates | None:
        """Keys and values of the learned prompt; None for an adaptation without one."""
        if self.prompt is None:
            return None
        with backbone_autocast(self.backbone):
            return self.prompt.states(self.backbone)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        num_items_in_batch: Tensor | int | None = None,
    ) -> CausalLMOutput:
        """Compute the token-weighted loss of a batch (eq. 11).

        Args:
            input_ids, attention_mask: [B, T].
            labels: [B, T] aligned with input_ids, -100 outside the label.
            num_items_in_batch: label tokens of the whole optimizer step.

        Returns:
            `loss`; `logits` of the label positions alone [L, vocabulary], none while training.
        """
        return causal_loss(
            self.model,
            attention_mask,
            labels,
            num_items_in_batch,
            input_ids=input_ids,
            deep_prompt=self.prompt_states(),
        )

    @torch.no_grad()
    def generate(self, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Tensor:
        """Generate with the backbone's own `generate`; prompts pad left."""
        states = self.prompt_states()

        def with_prompt(module: nn.Module, args: Any, keywords: Any) -> tuple[Any, Any]:
            return args, {**keywords, "deep_prompt": states}

        # `generate` refuses keywords that it does not know, so they join further down.
        hook = decoder_body(self.model).register_forward_pre_hook(with_prompt, with_kwargs=True)
        generate: Callable[..., Tensor] = self.backbone.generate  # type: ignore[assignment,operator]
        options.setdefault("logits_to_keep", last_position(input_ids.device))
        try:
            with backbone_autocast(self.backbone):
                return generate(input_ids=input_ids, attention_mask=attention_mask, **options)
        finally:
            hook.remove()

    def gradient_checkpointing_enable(
        self, gradient_checkpointing_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Recompute activations in the backward pass, prompts and adapters included."""
        # The prompt reaches every layer past the checkpoint's inputs, which only this form allows.
        self.backbone.gradient_checkpointing_enable({"use_reentrant": False})

    def gradient_checkpointing_disable(self) -> None:
        """Keep activations again."""
        self.backbone.gradient_checkpointing_disable()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a component folder: what was learned alone, no frozen weight.

        Raises:
            CheckpointWriteError: on a full disk; an earlier folder stays as it was.
        """
        config = {"component": COMPONENT, "backbone_id": self.identity, **asdict(self.settings)}
        write_component(folder, config, self._write_weights, trainable_bytes(self))

    def _write_weights(self, folder: Path) -> None:
        if isinstance(self.prompt, DeepPrompt):
            weights = {"embeddings": self.prompt.embeddings.detach().cpu().contiguous()}
            save_file(weights, folder / SOFT_PROMPTS_FILE, metadata={"format": "pt"})
        elif self.prompt is not None:
            save_prefix(self.prompt.embeddings, self.settings.backbone, folder)
        elif self.settings.adaptation == Adaptation.lora:
            save_adapter(self.model, folder)  # type: ignore[arg-type]

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        backbone: str | PreTrainedModel | None = None,
        dtype: str = "auto",
        is_trainable: bool = False,
    ) -> "ConditionExtractor":
        """Read a component folder; the model comes in eval mode.

        Args:
            folder: what `save_pretrained` wrote.
            backbone: a loaded model or a name in place of the one that config.json names.
            dtype: of the backbone when it is loaded here.
            is_trainable: leave what was learned trainable.

        Raises:
            NotACheckpointError, TruncatedCheckpointError, BackboneMismatchError.
        """
        stored = read_component_config(folder, COMPONENT)
        config = ConditionExtractorConfig.from_dict(stored)
        named = config.backbone if backbone is None else backbone
        check_backbone(stored, backbone_id(named), folder)
        if isinstance(named, str):
            backbone = load_backbone(named, dtype, config.backbone_revision)
        else:
            backbone = named
        backbone.requires_grad_(False)
        model: nn.Module = backbone
        if config.adaptation == Adaptation.lora:
            model = load_adapter(backbone, Path(folder), is_trainable)
        prompt = load_prompt(Path(folder), config, backbone)
        if prompt is not None:
            prompt.requires_grad_(is_trainable)
        return cls(model, prompt, config, stored["backbone_id"]).eval()


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


def build_condition_extractor(
    config: ConditionExtractorConfig, dtype: str = "auto", model: PreTrainedModel | None = None
) -> ConditionExtractor:
    """Make an untrained extractor; a soft prompt starts random until it is initialised.

    Args:
        config: its settings.
        dtype: "auto", "float32" or "bfloat16" for the backbone; what trains is float32 always.
        model: a loaded backbone in place of the one that `config` names.
    """
    backbone = model or load_backbone(config.backbone, dtype, config.backbone_revision)
    identity = backbone_id(backbone)
    prompt = empty_prompt(config, backbone)
    backbone.requires_grad_(False)
    adapted: nn.Module = backbone
    if config.adaptation == Adaptation.lora:
        adapted = add_lora(
            backbone,
            config.lora_rank,
            config.lora_alpha,
            config.lora_dropout,
            config.lora_targets,
            config.backbone,
        )
    return ConditionExtractor(adapted, prompt, config, identity)
