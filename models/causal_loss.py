"""One training step's forward pass of a causal language model, the same for every component."""

from typing import Any, cast

from torch import FloatTensor, Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

from models.frozen_backbone import attention_inputs, backbone_autocast
from models.label_loss import decoder_body, label_loss, step_loss, unwrapped


def causal_loss(
    model: nn.Module,
    attention_mask: Tensor | None,
    labels: Tensor,
    num_items_in_batch: Tensor | int | None = None,
    **decoder_inputs: Any,
) -> CausalLMOutput:
    """Compute the token-weighted loss of a batch, with logits at label positions at most.

    Args:
        model: a causal language model, PEFT-wrapped or not.
        attention_mask: [B, T]; None where padding, if any, is on the right.
        labels: [B, T] aligned with the input, -100 outside the label.
        num_items_in_batch: label tokens of the whole optimizer step; None: of this batch.
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
        if backbone.training:
            return CausalLMOutput(loss=cast(FloatTensor, step_loss(*inputs)))
        loss, logits, _ = label_loss(*inputs)
    return CausalLMOutput(loss=cast(FloatTensor, loss), logits=cast(FloatTensor, logits))
