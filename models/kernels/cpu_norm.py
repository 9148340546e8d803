"""RMS normalisation by frozen weights on a CPU, with half of the passes over memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm

# Each computes what Llama's does, under a name of its own.
SAME_AS_LLAMA = ("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm")


class RmsNorm(torch.autograd.Function):
    """`weight * x / rms(x)`, computed in float32; only x has a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Output of x [..., d] and weight [d], bit by bit that of transformers."""
        wide = x.float()
        inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
        ctx.save_for_backward(x, weight, inverse)
        return (wide * inverse).to(x.dtype).mul_(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        """Gradient of x: of what is normalised, less its share along x."""
        x, weight, inverse = ctx.saved_tensors
        grads, wide = (grad * weight).float(), x.float()
        along = (grads * wide).mean(-1, keepdim=True) * inverse.square()
        return grads.addcmul_(wide, along, value=-1).mul_(inverse).to(x.dtype), None, None


class CpuRmsNorm(LlamaRMSNorm):
    """Llama's norm, with `RmsNorm` where a frozen one passes gradients on."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Output [..., d] of hidden_states [..., d]."""
        applies = (
            torch.is_grad_enabled()
            and hidden_states.requires_grad
            and not self.weight.requires_grad
            and hidden_states.device.type == "cpu"
            and hidden_states.dtype == self.weight.dtype
        )
        if not applies:
            plain: Tensor = super().forward(hidden_states)
            return plain
        output: Tensor = RmsNorm.apply(hidden_states, self.weight, self.variance_epsilon)
        return output


def use_cpu_norm(model: nn.Module) -> None:
    """Compute the frozen norms of a backbone on a CPU with `RmsNorm`; other norms stay."""
    for module in model.modules():
        if type(module).__name__ in SAME_AS_LLAMA and module.weight.device.type == "cpu":
            module.__class__ = CpuRmsNorm
