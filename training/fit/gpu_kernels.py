"""What a GPU's fused kernels keep for the backward pass, for a dry run on any machine.

On a CPU PyTorch repeats keys of grouped queries, draws dropout in the activations' type and falls
back to whole matrices of attention weights where attention has dropout; on a GPU it does not.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

CountFlops = Callable[[int], None]


class FusedAttention(torch.autograd.Function):
    """Shapes of FlashAttention (Dao et al. 2022): inputs, output and a float32 a query are kept."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, count: CountFlops
    ) -> Tensor:
        """Output [..., Q, D] of queries [B, H, Q, D] over keys and values [B, G, K, D]."""
        count(sdpa_flop_count(query.shape, key.shape, value.shape))
        batch, heads, queries, _ = query.shape
        # Laid out as its caller wants it, so that it is not copied.
        output = query.new_empty(batch, queries, heads, value.shape[-1]).transpose(1, 2)
        sums = query.new_empty(query.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, mask, output.detach(), sums)
        ctx.count = count
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Gradients of query, key, value and, where it is learned, of an additive mask."""
        query, key, value, mask, *_ = ctx.saved_tensors
        ctx.count(sdpa_backward_flop_count(grad.shape, query.shape, key.shape, value.shape))
        given = (query, key, value, mask)
        return *(
            torch.empty_like(tensor) if needed and tensor is not None else None
            for tensor, needed in zip(given, ctx.needs_input_grad, strict=False)
        ), None


class FusedDropout(torch.autograd.Function):
    """Shapes of dropout: a byte an element is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """A tensor like x."""
        ctx.save_for_backward(torch.empty_like(x, dtype=torch.bool))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        """A gradient like the one given."""
        return torch.empty_like(grad)


@contextmanager
def gpu_kernels(count: CountFlops) -> Iterator[None]:
    """In the block attention and dropout are the shapes of what a GPU does.

    Args:
        count: is told the operations of each attention.
    """

    def attention(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **_: Any
    ) -> Tensor:
        output: Tensor = FusedAttention.apply(query, key, value, attn_mask, count)
        return output

    def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        output: Tensor = FusedDropout.apply(x) if training and p > 0 else x
        return output

    # Patched, since a mode of PyTorch's ends where a backward pass computes layers once more.
    name = "torch.nn.functional."
    with patch(f"{name}scaled_dot_product_attention", attention), patch(f"{name}dropout", dropout):
        yield
