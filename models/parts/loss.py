"""Log-probabilities of label tokens: logits are computed only where there is a label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

# Rows of logits at a time: as many as a shared cache holds.
ROWS = 128
IGNORE_INDEX = -100


class FrozenHeadLogprobs(torch.autograd.Function):
    """Log-probabilities [L] of targets [L] under softmax(states [L, d] @ weights [V, d]^T / t)."""

    @staticmethod
    def forward(
        ctx: Any, hidden_states: Tensor, weight: Tensor, targets: Tensor, temperature: float = 1.0
    ) -> Tensor:
        """The log-probabilities in float32; the states' gradient is kept for the backward pass."""
        gradient = torch.empty_like(hidden_states)
        found = hidden_states.new_empty(len(hidden_states), dtype=torch.float32)
        size = (min(ROWS, len(hidden_states)), len(weight))
        logits, weights = weight.new_empty(size), weight.new_empty(size, dtype=torch.float32)
        for start in range(0, len(hidden_states), ROWS):
            rows, labels = hidden_states[start : start + ROWS], targets[start : start + ROWS, None]
            count = len(rows)
            scores = torch.mm(rows, weight.t(), out=logits[:count])
            if temperature != 1.0:
                scores.div_(temperature)
            log_weights = torch.log_softmax(
                scores, dim=-1, dtype=torch.float32, out=weights[:count]
            )
            of_labels = log_weights.gather(1, labels)
            found[start : start + count] = of_labels.squeeze(1)
            probabilities = log_weights.exp_().scatter_(1, labels, of_labels.exp() - 1)
            torch.mm(scores.copy_(probabilities), weight, out=gradient[start : start + count])
        ctx.save_for_backward(gradient)
        ctx.temperature = temperature
        return found

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor, None, None, None]:
        """The kept gradient, each row scaled."""
        (gradient,) = ctx.saved_tensors
        scale = (-grad / ctx.temperature).to(gradient.dtype)
        return gradient * scale[:, None], None, None, None


def label_positions(labels: Tensor) -> Tensor:
    """Return the positions that predict a label, as indices into the flattened batch.

    Args:
        labels: [B, T], aligned with input_ids, -100 where there is no label.

    Returns:
        [L] int64 indices into [B * T]; position t predicts the label at t + 1.
    """
    return torch.nonzero(_shifted(labels) != IGNORE_INDEX).squeeze(1)


def label_loss(
    hidden_states: Tensor,
    labels: Tensor,
    lm_head: nn.Module,
    num_items_in_batch: Tensor | int | None = None,
    config: PretrainedConfig | None = None,
) -> tuple[Tensor, Tensor, int]:
    """Compute the token-weighted causal loss of hidden states, in float32.

    Args:
        hidden_states: [B, T, d], the decoder's last hidden states (after the final norm).
        labels: [B, T], aligned with input_ids, -100 where there is no label.
        lm_head: maps d to the vocabulary.
        num_items_in_batch: label tokens over all micro-batches of the optimizer step; the sum of
            token losses is divided by it. None: divided by this batch's own count.
        config: the backbone's, for architectures that scale or cap their logits.

    Returns:
        The loss (scalar), the logits of the label positions [L, vocabulary] and L. A batch
        without any label gives a loss of 0 that is still part of the autograd graph.
    """
    positions = label_positions(labels)
    rows = hidden_states.reshape(-1, hidden_states.shape[-1]).index_select(0, positions)
    logits = _scaled(lm_head(rows).float(), config)
    targets = _shifted(labels).index_select(0, positions)
    total = functional.cross_entropy(logits, targets, reduction="sum")
    count = positions.shape[0]
    return (
        total / (max(count, 1) if num_items_in_batch is None else num_items_in_batch),
        (logits),
        count,
    )


def step_loss(
    hidden_states: Tensor,
    labels: Tensor,
    lm_head: nn.Module,
    num_items_in_batch: Tensor | int | None = None,
    config: PretrainedConfig | None = None,
) -> Tensor:
    """The loss of `label_loss` without its logits: block by block where the head is frozen.

    Args: as of `label_loss`.
    """
    found, positions = label_logprobs(hidden_states, labels, lm_head, config)
    count = max(positions.shape[0], 1)
    return -found.sum() / (count if num_items_in_batch is None else num_items_in_batch)


def label_logprobs(
    hidden_states: Tensor,
    labels: Tensor,
    lm_head: nn.Module,
    config: PretrainedConfig | None = None,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities [L] of all label tokens, and their `label_positions` [L].

    Under softmax(logits / temperature), in float32; block by block where the head is frozen. Other
    args: as of `label_loss`.
    """
    positions = label_positions(labels)
    rows = hidden_states.reshape(-1, hidden_states.shape[-1]).index_select(0, positions)
    targets = _shifted(labels).index_select(0, positions)
    if _is_plain(lm_head, config) and hidden_states.requires_grad:
        weight = lm_head.weight
        found: Tensor = FrozenHeadLogprobs.apply(rows, weight, targets, temperature)
        return found, positions
    logits = _scaled(lm_head(rows).float(), config) / temperature
    logprobs = torch.log_softmax(logits, dim=-1).gather(1, targets[:, None])
    return logprobs.squeeze(1), positions


def _is_plain(lm_head: nn.Module, config: PretrainedConfig | None) -> bool:
    """Whether a head is frozen, whole on this device, and all that gives the logits."""
    weight = getattr(lm_head, "weight", None)
    return (
        type(lm_head) is nn.Linear
        and lm_head.bias is None
        # The second is what a parameter without data is.
        and type(weight) in (nn.Parameter, FakeTensor)
        and not weight.requires_grad
        # ZeRO-3 leaves an empty tensor outside the layer's own call.
        and weight.dim() == 2
        and (weight.dtype != torch.float32 or not torch.is_autocast_enabled(weight.device.type))
        and (config is None or not _changes(config))
    )


def decoder_body(model: nn.Module) -> nn.Module:
    """Return the part of a causal LM, PEFT-wrapped or not, that ends before its LM head.

    LoRA layers sit inside the wrapped model's own modules, so the body found here uses them.
    """
    base = unwrapped(model)
    body = base.get_decoder()
    return base.base_model if body is None or body is base else body


def unwrapped(model: nn.Module) -> PreTrainedModel:
    """Return the backbone itself where PEFT wraps it; its adapters stay in it."""
    unwrap = getattr(model, "get_base_model", None)
    return cast("PreTrainedModel", unwrap() if unwrap else model)


def _shifted(labels: Tensor) -> Tensor:
    """Align each label with the position that predicts it; flatten to [B * T]."""
    return functional.pad(labels, (0, 1), value=IGNORE_INDEX)[:, 1:].reshape(-1)


def _changes(config: PretrainedConfig) -> dict[str, float]:
    """What an architecture does after its LM head, and by which number."""
    text_config = config.get_text_config()
    names = ("logits_scaling", "logit_scale", "final_logit_softcapping")
    return {name: value for name in names if (value := getattr(text_config, name, None))}


def _scaled(logits: Tensor, config: PretrainedConfig | None) -> Tensor:
    """Apply what an architecture does after its LM head (Gemma, Granite, Cohere)."""
    for name, value in ({} if config is None else _changes(config)).items():
        if name == "logits_scaling":
            logits = logits / value
        elif name == "logit_scale":
            logits = logits * value
        else:
            logits = torch.tanh(logits / value) * value
    return logits
