"""Attention whose keys begin with those of a layer-wise soft prompt (Tri-RAG eq. 5 to 7).

A decoder that runs with `prompted_attention` takes one more keyword, `deep_prompt`: the keys and
values of the prompt, for those layers that have one. They stand in front of the layer's own, and in
no cache, so that `generate`, padding and caches work as ever. Rotary embeddings hang on distances
alone: prompt keys at positions -n..-1 give what positions 0..n-1 give with all tokens shifted by n.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from models.cpu_attention import causal_mask, cpu_training_attention, trains_on_cpu
from models.grouped_attention import set_attention

NAME = "deep_prompt"


@dataclass(frozen=True)
class PromptStates:
    """Keys and values [G, n, D] of a soft prompt, by the index of the layer that they go to.

    in_cache: a cache of its own kind has them in front of each row's already.
    """

    layers: Mapping[int, tuple[Tensor, Tensor]]
    length: int
    in_cache: bool = False


def use_prompt_attention(model: PreTrainedModel) -> None:
    """Let a causal language model take `deep_prompt`, whatever attention it ran with."""
    set_attention(model, NAME, prompted_attention)


def prompted_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    deep_prompt: PromptStates | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it, over the prompt's keys and then the layer's own.

    query: [B, H, Q, D]; key and value: [B, G, K, D]; attention_mask: None (causal), boolean or
    additive [B or 1, 1, Q, K]. Returns [B, Q, H, D].
    """
    layer = int(getattr(module, "layer_idx", -1))
    if deep_prompt is not None and layer in deep_prompt.layers:
        length = deep_prompt.length
        if not deep_prompt.in_cache:
            prompt_key, prompt_value = deep_prompt.layers[layer]
            key, value = _prepended(prompt_key, key), _prepended(prompt_value, value)
        visible = _visible(query, key, length, options)
        inputs = (module, query, key, value, attention_mask, dropout, options)
        if visible is not None or options.get("softcap") or not trains_on_cpu(*inputs):
            attention_mask = _mask(attention_mask, query, key, length, visible)
    if options.get("softcap"):
        capped = _capped(query, key, value, attention_mask, dropout, scaling, options["softcap"])
        return capped, None
    return cpu_training_attention(
        module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
    )


def _prepended(prompt: Tensor, own: Tensor) -> Tensor:
    """Prompt [G, n, D] in front of a batch's keys or values [B, G, K, D]."""
    return torch.cat([prompt.to(own.dtype).expand(own.shape[0], -1, -1, -1), own], dim=2)


def _mask(
    mask: Tensor | None, query: Tensor, key: Tensor, length: int, visible: Tensor | None
) -> Tensor | None:
    """Widen a layer's mask to the prompt's columns, [B or 1, 1, Q, n + K].

    query [B, H, Q, D] and key [B, G, n + K, D]; visible: boolean [B or 1, 1, Q, n] where a
    sliding window hides a part of the prompt, None where every token sees all of it.
    """
    if mask is None:
        if query.shape[2] == 1 and visible is None:
            return None
        mask = causal_mask(query, key[:, :, length:])[None, None]
    seen, unseen = (1, 0) if mask.dtype == torch.bool else (0.0, float("-inf"))
    prompt = mask.new_full((*mask.shape[:3], length), seen)
    if visible is not None:
        rows = max(mask.shape[0], visible.shape[0])
        mask = mask.expand(rows, -1, -1, -1)
        prompt = prompt.expand(rows, -1, -1, -1).masked_fill(~visible, unseen)
    return torch.cat([prompt, mask], dim=-1)


def _visible(query: Tensor, key: Tensor, length: int, options: Mapping[str, Any]) -> Tensor | None:
    """Which prompt columns a sliding window leaves to each query, boolean [B or 1, 1, Q, n].

    key: [B, G, n + K, D]. None where every query sees the whole prompt. `position_ids` of the
    queries, [B or 1, Q], begin with 0 at the first real token; without them padding is on the
    right, and a query's position is its column.
    """
    window, positions = options.get("sliding_window"), options.get("position_ids")
    if window is None or key.shape[2] <= window:
        return None
    if positions is None:
        last = key.shape[2] - length
        positions = torch.arange(last - query.shape[2], last, device=query.device)[None]
    columns = torch.arange(-length, 0, device=query.device)
    return (positions[:, None, :, None] - columns) < int(window)


def _capped(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    scaling: float | None,
    softcap: float,
) -> Tensor:
    """Attention with capped scores (Gemma 2), which no fused kernel here computes."""
    groups = query.shape[1] // key.shape[1]
    keys, values = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = torch.tanh(query @ keys.transpose(2, 3) * scale / softcap) * softcap
    if mask is None and query.shape[2] > 1:
        mask = causal_mask(query, key)
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        )
    weights = F.dropout(scores.float().softmax(dim=-1), dropout).to(query.dtype)
    return (weights @ values).transpose(1, 2).contiguous()
