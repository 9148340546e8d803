"""What all components share: their settings, adapter, loss and generation, and their folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from common.names import did_you_mean
from models.files.backbone import backbone_id, load_backbone
from models.files.checkpoint import (
    CONFIG_FILE,
    NotACheckpointError,
    check_backbone,
    read_component_config,
    write_component,
)
from models.kernels.cpu_attention import use_cpu_training_attention
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
from models.parts.loss import unwrapped
from models.parts.objective import OutcomeLoss, Outcomes

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.modeling_outputs import CausalLMOutput

# What config.json says of a component beside its settings.
IDENTITY = ("component", "backbone_id", "format_version")


@dataclass(frozen=True)
class ComponentConfig(ABC):
    """Settings that every component has.

    Attributes:
        component: its name in config.json.
        backbone: `smollm2`, a Hugging Face id or a folder.
        backbone_revision: commit or tag of a Hugging Face id.
        lora_rank, lora_alpha, lora_dropout: of the adapter.
        lora_targets: module names, or "all-linear".
        max_input_tokens: limit of the prompt.
        max_output_tokens: limit of what is written.
    """

    component: ClassVar[str]

    backbone: str
    backbone_revision: str | None = None
    lora_rank: int = 16
    lora_alpha: float = 32.0
    lora_dropout: float = 0.05
    lora_targets: list[str] | str = field(default=ALL_LINEAR)
    max_input_tokens: int = 512
    max_output_tokens: int = 256

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Return the settings of a component's folder.

        Raises:
            NotACheckpointError: none of this component, or a key of config.json that is no
                setting. TruncatedCheckpointError.
        """
        return cls.from_dict(read_component_config(folder, cls.component), folder)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], folder: str | Path) -> Self:
        """Return the settings among the entries of a folder's config.json.

        Raises:
            NotACheckpointError: a key that is no setting, or none for the backbone.
        """
        path = Path(folder) / CONFIG_FILE
        values = {key: value for key, value in values.items() if key not in IDENTITY}
        check_keys(values, cls, path)
        if "backbone" not in values:
            raise NotACheckpointError(f"{path}: no 'backbone'. Take the folder as it was written")
        return cls(**values)

    @property
    def has_adapter(self) -> bool:
        """Whether LoRA adapters train, and the backbone is frozen."""
        return self.lora_rank > 0

    @abstractmethod
    def processor(self, tokenizer: PreTrainedTokenizerBase) -> Any:
        """Return what turns records and requests into this component's inputs."""

    def fitted_to(self, backbone: PreTrainedModel) -> Self:
        """Return these settings with what the backbone alone knows.

        Raises:
            ValueError: no such component can be made on this backbone.
        """
        return self


def check_keys(values: Mapping[str, Any], kind: type[Any], path: Path) -> None:
    """Refuse keys of a component's file that are no fields of the dataclass `kind`.

    Raises:
        NotACheckpointError: naming the key, and its new name or the nearest one.
    """
    known = [item.name for item in fields(kind)]
    for key in values:
        if key not in known:
            raise NotACheckpointError(
                f"{path}: unknown key '{key}', {did_you_mean(key, known)}. Write the folder with "
                f"this version of Trivium. Known here: {', '.join(known)}"
            )


ConfigT = TypeVar("ConfigT", bound=ComponentConfig)


class ComponentModel(nn.Module, Generic[ConfigT]):
    """A backbone and what is learned for it; make one by `from_config` or `from_pretrained`.

    Frozen weights keep the backbone's dtype. What trains is float32 and, on a half-precision
    backbone, computes in that precision under autocast.

    Attributes:
        config_type: the class of the settings.
        model: the backbone, PEFT-wrapped where adapters train.
        settings: the component's own; `config` is the backbone's.
        identity: `backbone_id` of the backbone.
        outcome_loss: the objective of batches that come with outcomes; None: there are none.
    """

    # transformers.Trainer then hands num_items_in_batch to forward.
    accepts_loss_kwargs = True
    supports_gradient_checkpointing = True
    config_type: type[ConfigT]

    def __init__(
        self, model: nn.Module, config: ConfigT, identity: str, part: nn.Module | None = None
    ) -> None:
        """Join a backbone, adapters included, and the part that `learned_part` made."""
        super().__init__()
        self.model = model
        self.settings = config
        self.identity = identity
        self.outcome_loss: OutcomeLoss | None = None
        if config.has_adapter:
            from models.kernels.cpu_lora import use_cpu_lora

            if self.backbone.dtype != torch.float32:
                leave_casting_to_autocast(model)
            use_cpu_lora(model)
        from models.kernels.cpu_norm import use_cpu_norm

        use_cpu_norm(model)
        use_cpu_training_attention(self.backbone)

    @property
    def config(self) -> Any:
        """The backbone's configuration, where transformers looks for it."""
        return self.backbone.config

    @property
    def backbone(self) -> PreTrainedModel:
        """The language model itself, adapters inside."""
        return unwrapped(self.model)

    @classmethod
    def learned_part(
        cls, config: ConfigT, backbone: PreTrainedModel, folder: Path | None = None
    ) -> nn.Module | None:
        """Return what is learned beside the adapter, new or as a folder holds it.

        Raises:
            ValueError: no such part can be made for the backbone.
        """
        return None

    @classmethod
    def from_config(
        cls, config: ConfigT, backbone: PreTrainedModel | None = None, dtype: str = "auto"
    ) -> Self:
        """Return an untrained component, its backbone in the mode that it comes in.

        Args:
            config: its settings.
            backbone: a loaded backbone in place of the one that `config` names.
            dtype: "auto", "float32" or "bfloat16" for the backbone when it is loaded here.

        Raises:
            ValueError: no such component can be made on this backbone.
        """
        base = backbone or cls.load_backbone(config, dtype)
        identity = backbone_id(base)
        config = config.fitted_to(base)
        part = cls.learned_part(config, base)
        model: nn.Module = base
        if config.has_adapter:
            model = cls.add_adapter(base, config)
        return cls(model, config, identity, part)

    @classmethod
    def load_backbone(cls, config: ConfigT, dtype: str) -> PreTrainedModel:
        """Return the backbone that the settings name; dtype: as of `from_config`."""
        return load_backbone(config.backbone, dtype, config.backbone_revision)

    @classmethod
    def add_adapter(cls, backbone: PreTrainedModel, config: ConfigT) -> PeftModel:
        """Return the backbone frozen, with new adapters as the settings say."""
        return add_lora(
            backbone,
            config.lora_rank,
            config.lora_alpha,
            config.lora_dropout,
            config.lora_targets,
            config.backbone,
        )

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        backbone: str | PreTrainedModel | None = None,
        dtype: str = "auto",
        is_trainable: bool = False,
    ) -> Self:
        """Read a component folder; the component comes in eval mode.

        Args:
            folder: what `save_pretrained` wrote.
            backbone: a loaded model or a name in place of the one that config.json names.
            dtype: of the backbone when it is loaded here.
            is_trainable: leave what was learned trainable.

        Raises:
            NotACheckpointError, TruncatedCheckpointError, BackboneMismatchError.
        """
        stored = read_component_config(folder, cls.config_type.component)
        config = cls.config_type.from_dict(stored, folder)
        base = config.backbone if backbone is None else backbone
        check_backbone(stored, backbone_id(base, config.backbone_revision), folder)
        if isinstance(base, str):
            base = cls.load_backbone(replace(config, backbone=base), dtype)
        part = cls.learned_part(config, base, Path(folder))
        if part is not None:
            part.requires_grad_(is_trainable)
        model: nn.Module = base
        if config.has_adapter:
            model = load_adapter(base, Path(folder), is_trainable)
        return cls(model, config, stored["backbone_id"], part).eval()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a component folder: what was learned alone, no frozen weight.

        Raises:
            CheckpointWriteError: on a full disk; an earlier folder stays as it was.
        """
        named = {"component": self.settings.component, "backbone_id": self.identity}
        config = {**named, **asdict(self.settings)}
        write_component(folder, config, self.write_weights, trainable_bytes(self))

    def write_weights(self, folder: Path) -> None:
        """Write what was learned into a folder."""
        if self.settings.has_adapter:
            save_adapter(cast("PeftModel", self.model), folder)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        num_items_in_batch: Tensor | int | None = None,
        outcomes: Outcomes | None = None,
    ) -> CausalLMOutput:
        """Compute the token-weighted loss of a batch for a causal backbone.

        Args:
            input_ids, attention_mask: [B, T].
            labels: [B, T] aligned with input_ids, -100 outside the label.
            num_items_in_batch: label tokens of the whole optimizer step.
            outcomes: of labels that were drawn; the loss is then that of `outcome_loss`.

        Returns:
            `loss`; `logits` of the label positions alone [L, vocabulary], none while training.
        """
        inputs = {"input_ids": input_ids, **self.prompt_inputs()}
        return causal_loss(
            self.model, attention_mask, labels, num_items_in_batch, outcomes, self.outcome_loss,
            **inputs,
        )  # fmt: skip

    def prompt_inputs(self) -> dict[str, Any]:
        """Return what a learned prompt adds to the backbone's inputs."""
        return {}

    def generate(self, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Tensor:
        """Generate with the backbone's own `generate`; prompts of a causal model pad left."""
        return self._generated(input_ids=input_ids, attention_mask=attention_mask, **options)

    def _generated(self, attention_mask: Tensor, **inputs: Any) -> Tensor:
        generate: Callable[..., Tensor] = self.backbone.generate  # type: ignore[assignment,operator]
        if not self.config.is_encoder_decoder:
            inputs.setdefault("logits_to_keep", last_position(attention_mask.device))
        with backbone_autocast(self.backbone):
            return generate(attention_mask=attention_mask, **inputs)

    def gradient_checkpointing_enable(
        self, gradient_checkpointing_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Recompute activations in the backward pass; adapters on frozen weights included."""
        options = gradient_checkpointing_kwargs or {"use_reentrant": False}
        self.backbone.gradient_checkpointing_enable(options)
        if self.settings.has_adapter and options.get("use_reentrant", True):
            self.backbone.enable_input_require_grads()

    def gradient_checkpointing_disable(self) -> None:
        """Keep activations again."""
        self.backbone.gradient_checkpointing_disable()
