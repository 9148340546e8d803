"""Tri-RAG eq. 5 to 7 to the letter: prepend E_l, run the whole layer, drop the prompt's outputs."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel


def literal_hidden_states(
    backbone: PreTrainedModel, embeddings: Tensor, input_ids: Tensor, checkpointing: bool = False
) -> Tensor:
    """Return the last hidden states [B, T, d] of texts without padding, under E [layers, n, d].

    For decoders of Llama's make, every layer with a prompt; the attention is the backbone's own.
    """
    decoder: Any = backbone.get_decoder()
    hidden_states = backbone.get_input_embeddings()(input_ids)
    batch_size, length = input_ids.shape
    prompt_length = embeddings.shape[1]
    positions = torch.arange(prompt_length + length)[None]
    rotary = decoder.rotary_emb(hidden_states, position_ids=positions)

    def run(layer: Any, prompt: Tensor, hidden_states: Tensor) -> Tensor:
        rows = prompt.to(hidden_states.dtype).expand(batch_size, -1, -1)
        output = layer(
            torch.cat([rows, hidden_states], dim=1),
            attention_mask=None,
            position_embeddings=rotary,
            position_ids=positions,
        )
        kept: Tensor = output[:, prompt_length:]
        return kept

    for layer, prompt in zip(decoder.layers, embeddings, strict=True):
        if checkpointing:
            hidden_states = checkpoint(run, layer, prompt, hidden_states, use_reentrant=False)
        else:
            hidden_states = run(layer, prompt, hidden_states)
    normed: Tensor = decoder.norm(hidden_states)
    return normed
