"""A training step over tensors without data: what it keeps in memory, and what it computes."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

CountFlops = Callable[[int], None]
aten: Any = torch.ops.aten
# What a value decides (is this mask all true?) is decided here.
ANY_VALUE = 1


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


@dataclass(frozen=True)
class DryRun:
    """What one micro-batch takes.

    Attributes:
        saved_bytes: tensors that the forward pass leaves for the backward pass, weights left out.
        peak_bytes: most that forward and backward pass hold at a time beyond weights, gradients
            and inputs.
        linear_flops: of matrix products, which grow with the tokens.
        attention_flops: of attention, which grow with the square of the length.
    """

    saved_bytes: int
    peak_bytes: int
    linear_flops: int
    attention_flops: int


class LiveTensors(TorchDispatchMode):
    """Counts the bytes of tensors that exist at a time, each storage once, and the operations.

    Operations are counted by PyTorch's formulas, but not by its FlopCounterMode: that one keeps
    what gradient checkpointing recomputes alive.

    Args:
        known: tensors that are there before and not counted.
        label_tokens: positions that have a label, where the tensors do not say it.
    """

    def __init__(self, known: list[Tensor], label_tokens: int | None = None) -> None:
        super().__init__()
        self.label_tokens = label_tokens
        self.live = self.peak = 0
        self.linear_flops = self.attention_flops = 0
        self._bytes = {tensor.untyped_storage()._cdata: 0 for tensor in known}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation and count what it made."""
        if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            # No operation, and two of three calls: every operation asks where its tensors are.
            return args[0].fake_device
        output = self._of_values(func, args)
        if output is None:
            output = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        if (flops := flop_registry.get(func._overloadpacket)) is not None:
            self.linear_flops += int(flops(*args, **(kwargs or {}), out_val=output))
        return output

    def _of_values(self, func: Any, args: tuple[Any, ...]) -> Any:
        """What hangs on values that tensors without data lack; None for all else."""
        if self.label_tokens is None:
            return None
        if func is aten.nonzero.default:
            return torch.empty(self.label_tokens, args[0].dim(), dtype=torch.int64)
        return ANY_VALUE if func is aten._local_scalar_dense.default else None

    def count_attention(self, flops: int) -> None:
        """Add operations of an attention that is counted elsewhere."""
        self.attention_flops += flops

    def _count(self, storage: torch.UntypedStorage) -> None:
        if (key := storage._cdata) not in self._bytes:
            self._bytes[key] = storage.nbytes()
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._forget, key)

    def _forget(self, key: int) -> None:
        self.live -= self._bytes.pop(key)


class SavedTensors(torch.autograd.graph.saved_tensors_hooks):
    """Collects what autograd saves in the block, each storage once, parameters left out."""

    def __init__(self, module: nn.Module) -> None:
        self._held: dict[int, torch.UntypedStorage] = {}
        self._left_out = {p.untyped_storage()._cdata for p in module.parameters()}
        super().__init__(self._pack, lambda tensor: tensor)

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._left_out:
            self._held[storage._cdata] = storage
        return tensor

    def take_bytes(self) -> int:
        """Bytes collected so far, which are then let go."""
        total = sum(storage.nbytes() for storage in self._held.values())
        self._held.clear()
        return total


def dry_run(
    module: nn.Module,
    make_inputs: Callable[[], dict[str, Any]],
    label_tokens: int,
    gradient_checkpointing: bool = False,
    autocast_bf16: bool = False,
) -> DryRun:
    """Run one micro-batch of a module that lies on the meta device, as on a GPU; it is used up.

    Args:
        module: in any mode; its parameters are replaced by tensors without data.
        make_inputs: the forward pass's arguments, called where tensors have no data.
        label_tokens: of the micro-batch.
    """
    with FakeTensorMode():
        _without_data(module.train())
        if gradient_checkpointing:
            options = {"use_reentrant": False, "preserve_rng_state": False}
            module.backbone.gradient_checkpointing_enable(options)  # type: ignore[operator,union-attr]
        inputs = make_inputs()
        given = [value for value in tree_leaves(inputs) if isinstance(value, Tensor)]
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        known = [*module.parameters(), *gradients, *module.buffers(), *given]
        live = LiveTensors(known, label_tokens)
        saved = SavedTensors(module)
        # Else transformers builds masks for what it takes for a compilation.
        traced = patch("transformers.masking_utils.is_tracing", return_value=False)
        with traced, live, gpu_kernels(live.count_attention):
            with saved, torch.autocast("cpu", torch.bfloat16, enabled=autocast_bf16):
                loss = module(**inputs, num_items_in_batch=label_tokens).loss
            saved_bytes = saved.take_bytes()
            loss.backward()
    return DryRun(saved_bytes, live.peak, live.linear_flops, live.attention_flops)


def _without_data(module: nn.Module) -> None:
    """Replace parameters and buffers by fake CPU tensors; shared ones stay shared."""
    made: dict[int, nn.Parameter] = {}
    for parameter in list(module.parameters()):
        fake = nn.Parameter(_like(parameter), requires_grad=parameter.requires_grad)
        if fake.requires_grad:
            # Gradients are counted by themselves.
            fake.grad = torch.zeros_like(fake)
        made[id(parameter)] = fake
    for part in module.modules():
        for name, own in part._parameters.items():
            if own is not None:
                part._parameters[name] = made[id(own)]
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = _like(buffer)


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
