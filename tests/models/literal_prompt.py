"""Tri-RAG eq. 5 to 7 to the letter: prepend to a layer's input, run the layer, drop its outputs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel


@contextmanager
def literal_layers(
    model: PreTrainedModel, embeddings: Mapping[int, Tensor], length: int
) -> Iterator[None]:
    """Within the block, layers read [E_l; H] where E_l is given and H alone where it is not.

    The sequence that enters the model has `length` positions in front, which no layer looks at.
    """
    layers = model.get_decoder().layers
    originals = [layer.forward for layer in layers]
    for index, layer in enumerate(layers):
        layer.forward = _literal(originals[index], embeddings.get(index), length)
    try:
        yield
    finally:
        for layer, original in zip(layers, originals, strict=True):
            layer.forward = original


def literal_hidden_states(
    model: PreTrainedModel, embeddings: Mapping[int, Tensor], input_ids: Tensor, mask: Tensor
) -> Tensor:
    """Last hidden states [B, T, d] of right-padded texts under the prompts E_l [n, d]."""
    length = len(next(iter(embeddings.values())))
    words = model.get_input_embeddings()(input_ids)
    inputs = torch.cat([words.new_zeros(len(words), length, words.shape[-1]), words], dim=1)
    mask = torch.cat([mask.new_ones(len(mask), length), mask], dim=1)
    with literal_layers(model, embeddings, length):
        output = model.get_decoder()(inputs_embeds=inputs, attention_mask=mask, use_cache=False)
    return output.last_hidden_state[:, length:]


def _literal(forward: Callable[..., Tensor], prompt: Tensor | None, length: int) -> Any:
    def run(
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        position_ids: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        assert position_embeddings is not None and position_ids is not None
        tokens = hidden_states[:, length:]
        if prompt is None:
            attention_mask = (
                None if attention_mask is None else attention_mask[..., length:, length:]
            )
            cos, sin = position_embeddings
            position_embeddings = cos[:, length:], sin[:, length:]
            position_ids = position_ids[:, length:]
            inputs = tokens
        else:
            rows = prompt.to(tokens.dtype).expand(len(tokens), -1, -1)
            inputs = torch.cat([rows, tokens], dim=1)
        output = forward(
            inputs,
            attention_mask=attention_mask,
            position_embeddings=position_embeddings,
            position_ids=position_ids,
            **options,
        )
        kept = output[:, -tokens.shape[1] :]
        return torch.cat([torch.zeros_like(hidden_states[:, :length]), kept], dim=1)

    return run
