"""Adapters on a frozen backbone: LoRA as plain PEFT reads it, casting, and a step's loss."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import transformers
from torch import FloatTensor, Tensor, nn

from models.parts.loss import decoder_body, label_logprobs, label_loss, step_loss, unwrapped
from models.parts.objective import OutcomeLoss, Outcomes

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutput

ALL_LINEAR = "all-linear"


ADAPTER_CONFIG = "adapter_config.json"


ADAPTER_WEIGHTS = "adapter_model.safetensors"


def add_lora(
    model: PreTrainedModel,
    rank: int,
    alpha: float,
    dropout: float,
    targets: list[str] | str,
    backbone: str,
) -> PeftModel:
    """Freeze a backbone and add trainable adapters, kept in float32 whatever its own dtype.

    Args:
        model: the backbone; its layers are replaced in place.
        rank, alpha, dropout: of LoRA.
        targets: module names, or "all-linear" (every linear layer but the LM head).
        backbone: the name that the adapter's configuration gives its base model.
    """
    from peft import LoraConfig, TaskType, get_peft_model

    seq2seq = model.config.is_encoder_decoder
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type]
        lora_dropout=dropout,
        target_modules=targets,
        task_type=TaskType.SEQ_2_SEQ_LM if seq2seq else TaskType.CAUSAL_LM,
    )
    was_training = model.training
    adapted = get_peft_model(model, config, autocast_adapter_dtype=True)
    adapted.peft_config["default"].base_model_name_or_path = backbone
    # PEFT leaves the new dropout in training mode on a model in eval mode.
    adapted.train(was_training)
    return adapted


def save_adapter(model: PeftModel, folder: Path) -> None:
    """Write adapter_config.json and adapter_model.safetensors into a folder; no frozen weight."""
    backbone = model.peft_config["default"].base_model_name_or_path
    model.save_pretrained(str(folder), save_embedding_layers=False)
    model.peft_config["default"].base_model_name_or_path = backbone
    # PEFT's model card names local paths and says nothing that config.json does not.
    (folder / "README.md").unlink(missing_ok=True)


def load_adapter(model: PreTrainedModel, folder: Path, is_trainable: bool = False) -> PeftModel:
    """Put a saved adapter on its backbone."""
    from peft import PeftModel

    return PeftModel.from_pretrained(
        model, str(folder), is_trainable=is_trainable, autocast_adapter_dtype=True
    )


def trainable_bytes(model: nn.Module) -> int:
    """Count the bytes of the parameters that train, which is about what a checkpoint takes."""
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def backbone_autocast(backbone: PreTrainedModel) -> AbstractContextManager[Any]:
    """Autocast to the backbone's dtype, so that float32 adapters compute in it; none in float32."""
    dtype = backbone.dtype
    return torch.autocast(backbone.device.type, dtype, enabled=dtype != torch.float32)


def leave_casting_to_autocast(model: nn.Module) -> None:
    """Keep PEFT from turning activations into float32 copies in front of every adapter."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            module.cast_input_dtype_enabled = False  # type: ignore[assignment]


def attention_inputs(attention_mask: Tensor | None) -> dict[str, Tensor]:
    """Mask and positions for a decoder; neither where all padding is on the right.

    Attention is then plainly causal, which has faster kernels than an explicit mask.
    """
    if attention_mask is None or bool((attention_mask.diff(dim=1) <= 0).all()):
        return {}
    positions = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)
    return {"attention_mask": attention_mask, "position_ids": positions}


def causal_loss(
    model: nn.Module,
    attention_mask: Tensor | None,
    labels: Tensor,
    num_items_in_batch: Tensor | int | None = None,
    outcomes: Outcomes | None = None,
    outcome_loss: OutcomeLoss | None = None,
    **decoder_inputs: Any,
) -> CausalLMOutput:
    """Compute the token-weighted loss of a batch, with logits at label positions at most.

    Args:
        model: a causal language model, PEFT-wrapped or not.
        attention_mask: [B, T]; None where padding, if any, is on the right.
        labels: [B, T] aligned with the input, -100 outside the label.
        num_items_in_batch: label tokens of the whole optimizer step; None: of this batch.
        outcomes, outcome_loss: of labels that were drawn, and what is made of them.
        decoder_inputs: `input_ids` or `inputs_embeds`, and `deep_prompt` where there is one.

    Returns:
        `loss`, and `logits` [L, vocabulary] of the L label positions; none while training.
    """
    backbone = unwrapped(model)
    with backbone_autocast(backbone):
        states = decoder_body(model)(
            use_cache=False, **attention_inputs(attention_mask), **decoder_inputs
        ).last_hidden_state
        lm_head = backbone.get_output_embeddings()
        inputs = (states, labels, lm_head, num_items_in_batch, backbone.config)
        logits = None
        if outcomes is not None:
            loss = _outcome_loss(
                states, labels, backbone, num_items_in_batch, outcomes, outcome_loss
            )
        elif backbone.training:
            loss = step_loss(*inputs)
        else:
            loss, logits, _ = label_loss(*inputs)
    return transformers.modeling_outputs.CausalLMOutput(
        loss=cast(FloatTensor, loss), logits=cast(FloatTensor, logits)
    )


def _outcome_loss(
    states: Tensor,
    labels: Tensor,
    backbone: PreTrainedModel,
    num_items_in_batch: Tensor | int | None,
    outcomes: Outcomes,
    outcome_loss: OutcomeLoss | None,
) -> Tensor:
    if outcome_loss is None:
        raise ValueError("a batch has outcomes, and the component no outcome_loss: set it first")
    lm_head = backbone.get_output_embeddings()
    logprobs, positions = label_logprobs(
        states, labels, lm_head, backbone.config, outcome_loss.temperature
    )
    return outcome_loss(logprobs, positions, outcomes, num_items_in_batch)


def last_position(device: torch.device) -> Tensor:
    """What to pass as `logits_to_keep`.

    As a number it makes transformers hand the head a strided slice, and PyTorch then copies the
    whole vocabulary's weights once a prompt on a CPU; indices give a small tensor of their own.
    """
    return torch.tensor([-1], device=device)
