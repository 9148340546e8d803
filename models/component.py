"""What components that write a text share: forward, loss and generation of their model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from models.kernels.cpu_attention import use_cpu_training_attention
from models.kernels.cpu_lora import use_cpu_lora
from models.parts.adapters import (
    backbone_autocast,
    causal_loss,
    last_position,
    leave_casting_to_autocast,
)
from models.parts.loss import unwrapped


class TunedModel(nn.Module):
    """A backbone with the adapters that train, or all of whose weights do.

    Attributes:
        model: the backbone, PEFT-wrapped where adapters train.
        identity: `backbone_id` of the backbone.
        has_adapter: whether adapters train, and the backbone is frozen.
    """

    # transformers.Trainer then hands num_items_in_batch to forward.
    accepts_loss_kwargs = True
    supports_gradient_checkpointing = True

    def __init__(self, model: nn.Module, identity: str, has_adapter: bool) -> None:
        """Wrap a backbone and make it ready for training on this device."""
        super().__init__()
        self.model = model
        self.identity = identity
        self.has_adapter = has_adapter
        if has_adapter and self.backbone.dtype != torch.float32:
            leave_casting_to_autocast(model)
            use_cpu_lora(model)
        use_cpu_training_attention(self.backbone)

    @property
    def config(self) -> Any:
        """The backbone's configuration, where transformers looks for it."""
        return self.backbone.config

    @property
    def backbone(self) -> PreTrainedModel:
        """The language model itself, adapters inside."""
        return unwrapped(self.model)

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the backbone reads with an encoder."""
        return bool(self.config.is_encoder_decoder)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        num_items_in_batch: Tensor | int | None = None,
    ) -> CausalLMOutput:
        """Compute the token-weighted loss of a batch for a causal backbone.

        Args:
            input_ids, attention_mask: [B, T].
            labels: [B, T] aligned with input_ids, -100 outside the label.
            num_items_in_batch: label tokens of the whole optimizer step.

        Returns:
            `loss`; `logits` of the label positions alone [L, vocabulary], none while training.
        """
        return causal_loss(
            self.model, attention_mask, labels, num_items_in_batch, input_ids=input_ids
        )

    def generate(self, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Tensor:
        """Generate with the backbone's own `generate`; prompts of a causal model pad left."""
        generate: Callable[..., Tensor] = self.backbone.generate  # type: ignore[assignment,operator]
        if not self.is_encoder_decoder:
            options.setdefault("logits_to_keep", last_position(input_ids.device))
        with backbone_autocast(self.backbone):
            return generate(input_ids=input_ids, attention_mask=attention_mask, **options)

    def gradient_checkpointing_enable(
        self, gradient_checkpointing_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Recompute activations in the backward pass; adapters on frozen weights included."""
        options = gradient_checkpointing_kwargs or {"use_reentrant": False}
        self.backbone.gradient_checkpointing_enable(options)
        if self.has_adapter and options.get("use_reentrant", True):
            self.backbone.enable_input_require_grads()

    def gradient_checkpointing_disable(self) -> None:
        """Keep activations again."""
        self.backbone.gradient_checkpointing_disable()
