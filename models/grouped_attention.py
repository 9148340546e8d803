"""Attention of one new token over cached keys without copying them for every query head.

With fewer key heads than query heads (grouped queries), transformers repeats all cached keys and
values for each new token wherever a mask is given. The query heads that share a key head can stand
as the queries of one attention call instead: the same sums, over the cache as it lies in memory.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED_SDPA = "grouped_sdpa"


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
    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, sdpa_mask)
    model.set_attn_implementation(name)
