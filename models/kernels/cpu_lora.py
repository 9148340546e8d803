"""LoRA on frozen linear layers of a CPU, with fewer passes over memory.

PEFT computes `W x + (B A dropout(x)) * scale` in steps that each write a tensor as wide as the
layer's output, and PyTorch's dropout draws its random numbers one by one; on a CPU this takes as
long as the frozen product. The same sum is computed here with the update added by the matrix
multiplication itself, and layers that read the same input, as q, k and v do, share its mask and
one product with their A. Modules stay PEFT's: saving, loading, merging and switching are untouched.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from peft.tuners.lora.layer import Linear
from torch import Tensor, nn
from torch.nn import functional as F

# Dropout decides by 16 random bits an element, so its rate is exact to 1 in 65,536.
RANDOM_LEVELS = 1 << 16
# Layers of one module that read the same input, as the decoders name them.
SAME_INPUT = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
DTYPES = (torch.bfloat16, torch.float32)


class Update(NamedTuple):
    """What a layer computes with: frozen weight [out, in] and bias [out], A [rank, in], B [out,
    rank], the update's scale and its dropout.
    """

    weight: Tensor
    bias: Tensor | None
    lora_a: Tensor
    lora_b: Tensor
    scale: float
    dropout: float


def keep_mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """Ones, and zeros with probability `rate`, from PyTorch's generator."""
    count = shape.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    threshold = round(rate * RANDOM_LEVELS) - RANDOM_LEVELS // 2
    # Written in the activations' dtype: a product of two dtypes takes five times as long.
    keep = torch.empty(count, dtype=dtype)
    return torch.ge(words.view(torch.int16)[:count], threshold, out=keep).view(shape)


class LoraProducts(torch.autograd.Function):
    """`W x + bias + scale * B A dropout(x)` of layers with the same x, of which only x, A and B
    have gradients.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dropout: float, scales: Sequence[float], *tensors: Any
    ) -> tuple[Tensor, ...]:
        """Outputs [..., out] of x [..., in]; tensors: the first four of each layer's `Update`."""
        layers = [tensors[start : start + 4] for start in range(0, len(tensors), 4)]
        flat = x.reshape(-1, x.shape[-1])
        scales = [scale / (1 - dropout) for scale in scales]
        down = torch.cat([a.to(x.dtype) for _, _, a, _ in layers])
        ups = [(b * scale).to(x.dtype) for (_, _, _, b), scale in zip(layers, scales, strict=True)]
        keep = keep_mask(flat.shape, dropout, x.dtype) if dropout else None
        hidden = (flat if keep is None else flat * keep) @ down.t()
        ctx.ranks, ctx.scales = [up.shape[1] for up in ups], scales
        weights = [weight for weight, _, _, _ in layers]
        ctx.save_for_backward(flat, keep, down, hidden, *weights, *ups)
        ctx.set_materialize_grads(False)
        parts = zip(layers, hidden.split(ctx.ranks, dim=1), ups, strict=True)
        return tuple(
            F.linear(flat, weight, bias).addmm_(part, up.t()).view(*x.shape[:-1], -1)
            for (weight, bias, _, _), part, up in parts
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """Gradients of x and of each layer's A and B."""
        flat, keep, down, hidden, *rest = ctx.saved_tensors
        weights, ups = rest[: len(grads)], rest[len(grads) :]
        sizes = [len(weight) for weight in weights]
        flats = [
            flat.new_zeros(len(flat), size) if grad is None else grad.reshape(-1, size)
            for grad, size in zip(grads, sizes, strict=True)
        ]
        grad_hidden = torch.cat([g @ up for g, up in zip(flats, ups, strict=True)], dim=1)
        dropped = flat if keep is None else flat * keep
        # A contiguous left side spares the matrix multiplication a slow transposed read.
        grad_a = (grad_hidden.t().contiguous() @ dropped).float().split(ctx.ranks)
        parts = hidden.t().contiguous().split(ctx.ranks)
        grad_b = [
            (part @ g).t().float() * scale
            for part, g, scale in zip(parts, flats, ctx.scales, strict=True)
        ]
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = flats[0] @ weights[0]
            for g, weight in zip(flats[1:], weights[1:], strict=True):
                grad_x.addmm_(g, weight)
            if keep is None:
                grad_x.addmm_(grad_hidden, down)
            else:
                grad_x.addcmul_(grad_hidden @ down, keep)
            grad_x = grad_x.view(*next(g for g in grads if g is not None).shape[:-1], -1)
        of_layers = [(None, None, a, b) for a, b in zip(grad_a, grad_b, strict=True)]
        return grad_x, None, None, *(each for layer in of_layers for each in layer)


class SameInput:
    """Layers that are called one after another with the same input: the first computes for all.

    Where one was not called with what the first was given, each computes for itself from then on.
    """

    def __init__(self, layers: Sequence["CpuLoraLinear"]) -> None:
        """Begin with these layers, which then refer to this group."""
        self.layers = list(layers)
        self._input: Tensor | None = None
        self._outputs: dict[CpuLoraLinear, Tensor] = {}
        for layer in layers:
            layer.same_input = self

    def output(self, layer: "CpuLoraLinear", x: Tensor) -> Tensor | None:
        """Return a layer's output; None where it is to compute for itself."""
        if self._input is not x or layer not in self._outputs:
            if self._outputs:
                self.layers = []
            self._outputs = self._computed(x)
            self._input = x if self._outputs else None
        output = self._outputs.pop(layer, None)
        if not self._outputs:
            self._input = None
        return output

    def _computed(self, x: Tensor) -> "dict[CpuLoraLinear, Tensor]":
        updates = [update for layer in self.layers if (update := layer.update(x))]
        rates = {update.dropout for update in updates}
        if len(updates) != len(self.layers) or len(rates) != 1:
            return {}
        return dict(zip(self.layers, products(x, updates), strict=True))


def products(x: Tensor, updates: Sequence[Update]) -> tuple[Tensor, ...]:
    """Return the outputs [..., out] of layers with the same x [..., in] and the same dropout."""
    tensors = [tensor for update in updates for tensor in update[:4]]
    scales = [update.scale for update in updates]
    found: tuple[Tensor, ...] = LoraProducts.apply(x, updates[0].dropout, scales, *tensors)
    return found


class CpuLoraLinear(Linear):
    """PEFT's LoRA layer, with `LoraProducts` in the one case that training runs through."""

    same_input: SameInput | None = None

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Output of the layer; PEFT's own wherever more than one plain adapter is at work."""
        update = None if args or kwargs else self.update(x)
        if update is None:
            output: Tensor = super().forward(x, *args, **kwargs)
            return output
        shared = self.same_input.output(self, x) if self.same_input else None
        return products(x, [update])[0] if shared is None else shared

    def update(self, x: Tensor) -> Update | None:
        """Return what this layer computes with; None where PEFT's own forward has to."""
        adapter = self.active_adapters[0] if len(self.active_adapters) == 1 else None
        if (
            not torch.is_grad_enabled()
            or self.disable_adapters
            or self.merged
            or adapter is None
            or adapter not in self.lora_A
            or adapter in self.lora_variant
            or x.device.type != "cpu"
            or x.dtype not in DTYPES
            or x.dtype != self.base_layer.weight.dtype
            or _is_cast(x)
        ):
            return None
        base: Any = self.base_layer
        down: Any = self.lora_A[adapter]
        up: Any = self.lora_B[adapter]
        dropout = self.lora_dropout[adapter]
        return Update(
            base.weight,
            base.bias,
            down.weight,
            up.weight,
            self.scaling[adapter],
            dropout.p if isinstance(dropout, nn.Dropout) and dropout.training else 0.0,
        )


def _is_cast(x: Tensor) -> bool:
    """Return whether autocast computes with an input in another dtype."""
    return torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") != x.dtype


def use_cpu_lora(model: nn.Module) -> None:
    """Compute the LoRA layers of a frozen backbone on a CPU with `LoraProducts`."""
    for module in model.modules():
        if type(module) is Linear and _is_suited(module):
            module.__class__ = CpuLoraLinear
    for module in model.modules():
        for names in SAME_INPUT:
            layers = [getattr(module, name, None) for name in names]
            found = [layer for layer in layers if isinstance(layer, CpuLoraLinear)]
            if len(found) > 1:
                SameInput(found)


def _is_suited(module: Linear) -> bool:
    base = module.base_layer
    return (
        type(base) is nn.Linear
        and base.weight.dtype in DTYPES
        and base.weight.device.type == "cpu"
        and not base.weight.requires_grad
        and not any(layer.bias is not None for layer in module.lora_B.values())
    )
