"""LoRA on a frozen bfloat16 linear layer of a CPU, with fewer passes over memory.

PEFT computes `W x + (B A dropout(x)) * scale` in steps that each write a tensor as wide as the
layer's output, and PyTorch's dropout draws its random numbers one by one; on a CPU this takes as
long as the frozen product. The same sum is computed here with the update added by the matrix
multiplication itself. Modules stay PEFT's: saving, loading, merging and switching are untouched.
"""

from typing import Any

import torch
from peft.tuners.lora.layer import Linear
from torch import Tensor, nn
from torch.nn import functional as F

# Dropout decides by 16 random bits an element, so its rate is exact to 1 in 65,536.
RANDOM_LEVELS = 1 << 16


def keep_mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """Ones, and zeros with probability `rate`, from PyTorch's generator."""
    count = shape.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    threshold = round(rate * RANDOM_LEVELS) - RANDOM_LEVELS // 2
    # Written in the activations' dtype: a product of two dtypes takes five times as long.
    keep = torch.empty(count, dtype=dtype)
    return torch.ge(words.view(torch.int16)[:count], threshold, out=keep).view(shape)


class LoraProduct(torch.autograd.Function):
    """`W x + bias + scale * B A dropout(x)` where only x, A and B have gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        lora_a: Tensor,
        lora_b: Tensor,
        scale: float,
        dropout: float,
    ) -> Tensor:
        """Output [..., out] of x [..., in], weight [out, in], A [rank, in] and B [out, rank]."""
        flat = x.reshape(-1, x.shape[-1])
        scale = scale / (1 - dropout)
        down, up = lora_a.to(x.dtype), (lora_b * scale).to(x.dtype)
        keep = keep_mask(flat.shape, dropout, x.dtype) if dropout else None
        hidden = (flat if keep is None else flat * keep) @ down.t()
        ctx.save_for_backward(flat, weight, down, up, hidden, keep)
        ctx.scale = scale
        output = F.linear(flat, weight, bias).addmm_(hidden, up.t())
        return output.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Gradients of x, A and B."""
        flat, weight, down, up, hidden, keep = ctx.saved_tensors
        grads = grad.reshape(-1, grad.shape[-1])
        grad_hidden = grads @ up
        # A contiguous left side spares the matrix multiplication a slow transposed read.
        grad_b = (hidden.t().contiguous() @ grads).t().float() * ctx.scale
        dropped = flat if keep is None else flat * keep
        grad_a = (grad_hidden.t().contiguous() @ dropped).float()
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = grads @ weight
            if keep is None:
                grad_x.addmm_(grad_hidden, down)
            else:
                grad_x.addcmul_(grad_hidden @ down, keep)
            grad_x = grad_x.view(*grad.shape[:-1], -1)
        return grad_x, None, None, grad_a, grad_b, None, None


class CpuLoraLinear(Linear):
    """PEFT's LoRA layer, with `LoraProduct` in the one case that training runs through."""

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Output of the layer; PEFT's own wherever more than one plain adapter is at work."""
        adapter = self.active_adapters[0] if len(self.active_adapters) == 1 else None
        plain = (
            torch.is_grad_enabled()
            and not (args or kwargs or self.disable_adapters or self.merged)
            and adapter is not None
            and adapter in self.lora_A
            and adapter not in self.lora_variant
            and x.device.type == "cpu"
            and x.dtype == self.base_layer.weight.dtype == torch.bfloat16
        )
        if not plain or adapter is None:
            output: Tensor = super().forward(x, *args, **kwargs)
            return output
        dropout = self.lora_dropout[adapter]
        rate = dropout.p if isinstance(dropout, nn.Dropout) and dropout.training else 0.0
        product: Tensor = LoraProduct.apply(
            x,
            self.base_layer.weight,
            self.base_layer.bias,
            self.lora_A[adapter].weight,
            self.lora_B[adapter].weight,
            self.scaling[adapter],
            rate,
        )
        return product


def use_cpu_lora(model: nn.Module) -> None:
    """Compute the LoRA layers of a frozen bfloat16 backbone on a CPU with `LoraProduct`."""
    for module in model.modules():
        if type(module) is Linear and _is_suited(module):
            module.__class__ = CpuLoraLinear


def _is_suited(module: Linear) -> bool:
    base = module.base_layer
    return (
        type(base) is nn.Linear
        and base.weight.dtype == torch.bfloat16
        and base.weight.device.type == "cpu"
        and not base.weight.requires_grad
        and not any(layer.bias is not None for layer in module.lora_B.values())
    )
