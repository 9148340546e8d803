"""Frozen linear layers of a CPU, with their weights laid out once for oneDNN.

PyTorch's own products, MKL's in float32 and oneDNN's in bfloat16, lay a weight out anew in every
call. Where a decoding step has few rows, that takes about as long as the product itself.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Rows that oneDNN is told to expect; any number may come.
ROWS = 128


class PackedLinear(nn.Linear):
    """A linear layer for inference, whose weight [out, in] is in oneDNN's own layout.

    `weight.to_dense()` is the weight as it was, bit by bit.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Output [..., out] of an input [..., in]; PyTorch's own where it has a gradient."""
        if torch.is_grad_enabled() and input.requires_grad:
            return F.linear(input, self.weight.to_dense(), self.bias)
        if torch.is_autocast_enabled("cpu"):
            # It knows no operation of oneDNN by name, and so casts nothing for this one.
            input = input.to(self.weight.dtype)
        output: Tensor = torch.ops.mkldnn._linear_pointwise(
            input, self.weight, self.bias, "none", [], ""
        )
        return output


def pack_linears(model: nn.Module) -> None:
    """Lay out a model's frozen linear layers of float32 or bfloat16 on a CPU; all others stay.

    For inference alone, when nothing is merged into the weights any more. Takes no memory: the
    weights as they were are let go, but for one that another module has too.
    """
    if not torch.backends.mkldnn.is_available():
        return
    for module in model.modules():
        if type(module) is nn.Linear and _is_suited(module.weight):
            packed = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach(), ROWS)
            module.weight = nn.Parameter(packed, requires_grad=False)
            module.__class__ = PackedLinear


def _is_suited(weight: Tensor) -> bool:
    return (
        _multiplies(weight.dtype)
        and weight.device.type == "cpu"
        and not weight.requires_grad
        and weight.numel() > 0
    )


def _multiplies(dtype: torch.dtype) -> bool:
    """Tell whether oneDNN multiplies by weights of this dtype on this machine."""
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32
