"""Attention for a CPU: causal in training, of one new token over a cache, and of an encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GROUPED_SDPA = "grouped_sdpa"
NAME = "cpu_training"
ENCODER_NAME = "cpu_encoder"
# Queries at a time: a block's weights then stay in a core's cache.
QUERY_BLOCK = 64
# Most keys whose weights are kept for the backward pass; those of more are computed again, since
# they grow with the square of the length and everything else that is kept does not.
KEPT_KEYS = 512


def grouped_sdpa(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it; its own `sdpa` for more than one query position.

    query: [B, H, 1, D]; key and value: [B, G, T, D]; attention_mask: [B, 1, 1, T] or None.
    Returns [B, 1, H, D].
    """
    batch, heads, length, width = query.shape
    key_heads = key.shape[1]
    applies = (
        length == 1
        and heads > key_heads
        and dropout == 0.0
        and (attention_mask is None or attention_mask.shape[1] == 1)
        and all(options.get(name) is None for name in ("position_bias", "cache"))
    )
    if not applies:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    grouped = query.reshape(batch, key_heads, heads // key_heads, width)
    output = F.scaled_dot_product_attention(
        grouped, key, value, attn_mask=attention_mask, scale=scaling
    )
    return output.reshape(batch, 1, heads, value.shape[-1]), None


def use_grouped_attention(model: PreTrainedModel) -> None:
    """Let a causal language model that runs with `sdpa` decode with `grouped_sdpa`."""
    replace_sdpa(model, GROUPED_SDPA, grouped_sdpa)


def replace_sdpa(
    model: PreTrainedModel, name: str, attention: Callable[..., tuple[Tensor, None]]
) -> None:
    """Let a causal language model run with `attention`, registered as `name`, with sdpa's masks.

    Encoder-decoders, and models that do not use `sdpa`, stay as they are.
    """
    implementation = getattr(model.config, "_attn_implementation", None)
    if implementation == "sdpa" and not model.config.is_encoder_decoder:
        set_attention(model, name, attention)


def set_attention(
    model: PreTrainedModel, name: str, attention: Callable[..., tuple[Tensor, None]]
) -> None:
    """Run a model with `attention`, registered as `name`, under masks as sdpa has them."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, sdpa_mask)
    model.set_attn_implementation(name)


class CausalAttention(torch.autograd.Function):
    """Causal attention of queries [B, H, Q, D] over keys and values [B, G, K, D], K at least Q.

    H is a multiple of G; key head i serves H / G query heads in a row, as in transformers. The
    last query sees all keys, and each one before it one key less.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Attention output [B, H, Q, D]."""
        ctx.scale = scale
        queries, keys, values = _by_key_head(query * scale, key, value)
        output, kept = torch.empty_like(queries), []
        for block, seen, query_block in _blocks(queries, keys.shape[1]):
            weights = _weights(query_block, keys[:, :seen], block.stop - block.start)
            output[:, :, block] = _by_position(weights @ values[:, :seen], queries, block)
            if keys.shape[1] <= KEPT_KEYS:
                kept.append(weights)
        ctx.save_for_backward(query, key, value, *kept)
        return output.reshape(query.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        """Gradients of query, key and value."""
        query, key, value, *kept = ctx.saved_tensors
        queries, keys, values = _by_key_head(query * ctx.scale, key, value)
        grads = grad.reshape(queries.shape)
        grad_query = torch.empty_like(queries)
        grad_key = torch.zeros(keys.shape, dtype=torch.float32)
        grad_value = torch.zeros(values.shape, dtype=torch.float32)
        for place, (block, seen, query_block) in enumerate(_blocks(queries, keys.shape[1])):
            grad_block = grads[:, :, block].reshape(query_block.shape)
            if kept:
                weights = kept[place]
            else:
                weights = _weights(query_block, keys[:, :seen], block.stop - block.start)
            grad_weights = grad_block @ values[:, :seen].transpose(1, 2)
            # PyTorch's own derivative of the softmax, one pass over the block.
            grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, query.dtype)
            grad_query[:, :, block] = _by_position(grad_scores @ keys[:, :seen], queries, block)
            grad_key[:, :seen] += grad_scores.transpose(1, 2) @ query_block
            grad_value[:, :seen] += weights.transpose(1, 2) @ grad_block
        return (
            grad_query.reshape(query.shape).mul_(ctx.scale),
            grad_key.reshape(key.shape).to(key.dtype),
            grad_value.reshape(value.shape).to(value.dtype),
            None,
        )


def _by_key_head(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [rows, groups, Q, D] beside the keys and values [rows, K, D] that they share."""
    rows, groups = key.shape[0] * key.shape[1], query.shape[1] // key.shape[1]
    keys, values = (tensor.reshape(rows, -1, tensor.shape[-1]) for tensor in (key, value))
    return query.reshape(rows, groups, *query.shape[2:]), keys, values


def _blocks(queries: Tensor, keys: int) -> Iterator[tuple[slice, int, Tensor]]:
    """Yield the positions of each block of queries, how many keys they see, and the queries."""
    rows, _, length, width = queries.shape
    for start in range(0, length, QUERY_BLOCK):
        block = slice(start, min(start + QUERY_BLOCK, length))
        yield block, keys - length + block.stop, queries[:, :, block].reshape(rows, -1, width)


def _by_position(output: Tensor, queries: Tensor, block: slice) -> Tensor:
    """Return what a block of queries gave, with the group and the position apart again."""
    return output.view(*queries.shape[:2], block.stop - block.start, output.shape[-1])


def causal_mask(query: Tensor, key: Tensor) -> Tensor:
    """Which keys each query sees, boolean [Q, K]: the last query all, each before it one less."""
    length, keys = query.shape[2], key.shape[2]
    return torch.ones(length, keys, dtype=torch.bool, device=query.device).tril(keys - length)


def _weights(query_block: Tensor, keys: Tensor, size: int) -> Tensor:
    """Attention weights [rows, queries, keys] of the last `size` positions of `keys`."""
    scores = query_block @ keys.transpose(1, 2)
    future = torch.ones(size, size, dtype=torch.bool).triu(1)
    by_group = scores.view(scores.shape[0], -1, size, keys.shape[1])
    by_group[..., -size:].masked_fill_(future, float("-inf"))
    return scores.softmax(dim=-1)


def cpu_training_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it; `grouped_sdpa` where `CausalAttention` does not apply."""
    if not trains_on_cpu(module, query, key, value, attention_mask, dropout, options):
        return grouped_sdpa(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return CausalAttention.apply(query, key, value, scale).transpose(1, 2).contiguous(), None


def trains_on_cpu(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float,
    options: Mapping[str, Any],
) -> bool:
    """Whether `CausalAttention` computes this and is the faster way: a bfloat16 step on a CPU."""
    return (
        attention_mask is None
        and dropout == 0.0
        and torch.is_grad_enabled()
        and any(tensor.requires_grad for tensor in (query, key, value))
        and query.device.type == "cpu"
        # A tensor without data stands for one on any device.
        and not isinstance(query, FakeTensor)
        and query.dtype == torch.bfloat16
        and 1 < query.shape[2] <= key.shape[2]
        and key.shape == value.shape
        and getattr(module, "is_causal", True)
        and all(options.get(name) is None for name in ("is_causal", "position_bias", "cache"))
    )


def use_cpu_training_attention(model: PreTrainedModel) -> None:
    """Let a causal language model in bfloat16 on a CPU train with `CausalAttention`.

    Other models, and those that do not use `sdpa`, stay as they are.
    """
    if model.device.type == "cpu" and model.dtype == torch.bfloat16:
        replace_sdpa(model, NAME, cpu_training_attention)


class FullAttention(torch.autograd.Function):
    """Attention of queries [B, H, Q, D] over keys and values [B, H, K, D], as plain products.

    In bfloat16 with narrow heads PyTorch's fused kernel takes three times as long on a CPU.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
    ) -> Tensor:
        """Attention output [B, H, Q, D]; mask: [B, 1, Q, K], false where a key is not seen."""
        rows, width = query.shape[0] * query.shape[1], query.shape[3]
        queries = (query * scale).reshape(rows, -1, width)
        keys, values = (tensor.reshape(rows, -1, width) for tensor in (key, value))
        scores = queries @ keys.transpose(1, 2)
        if mask is not None:
            by_head = scores.view(*query.shape[:3], key.shape[2])
            by_head.masked_fill_(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        ctx.save_for_backward(queries, keys, values, weights)
        ctx.shape, ctx.scale = query.shape, scale
        return (weights @ values).view(query.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Gradients of query, key and value."""
        queries, keys, values, weights = ctx.saved_tensors
        grads = grad.reshape(queries.shape)
        grad_weights = grads @ values.transpose(1, 2)
        grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, queries.dtype)
        batch, heads, _, width = ctx.shape
        grad_query = (grad_scores @ keys).mul_(ctx.scale).view(ctx.shape)
        others = (grad_scores.transpose(1, 2) @ queries, weights.transpose(1, 2) @ grads)
        grad_key, grad_value = (other.view(batch, heads, -1, width) for other in others)
        return grad_query, grad_key, grad_value, None, None


def cpu_encoder_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it; its own `sdpa` where `FullAttention` does not apply."""
    applies = (
        query.device.type == "cpu"
        and query.dtype == torch.bfloat16
        and not isinstance(query, FakeTensor)
        and dropout == 0.0
        and query.shape[1] == key.shape[1]
        and (attention_mask is None or attention_mask.dtype == torch.bool)
        and not getattr(module, "is_causal", False)
    )
    if not applies:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output: Tensor = FullAttention.apply(query, key, value, attention_mask, scale)
    return output.transpose(1, 2).contiguous(), None


def use_cpu_encoder_attention(model: PreTrainedModel) -> None:
    """Let an encoder that runs with `sdpa` in bfloat16 on a CPU run with `FullAttention`."""
    if model.device.type == "cpu" and model.dtype == torch.bfloat16:
        replace_sdpa(model, ENCODER_NAME, cpu_encoder_attention)
