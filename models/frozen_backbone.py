"""How a frozen half-precision backbone runs beside float32 adapters."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from transformers import PreTrainedModel


def backbone_autocast(backbone: PreTrainedModel) -> AbstractContextManager[Any]:
    """Autocast to the backbone's dtype, so that float32 adapters compute in it; none in float32."""
    dtype = backbone.dtype
    return torch.autocast(backbone.device.type, dtype, enabled=dtype != torch.float32)


def leave_casting_to_autocast(model: nn.Module) -> None:
    """Keep PEFT from turning activations into float32 copies in front of every adapter."""
    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            module.cast_input_dtype_enabled = False  # type: ignore[assignment]


def attention_inputs(attention_mask: Tensor | None) -> dict[str, Tensor]:
    """Mask and positions for a decoder; neither where all padding is on the right.

    Attention is then plainly causal, which has faster kernels than an explicit mask.
    """
    if attention_mask is None or bool((attention_mask.diff(dim=1) <= 0).all()):
        return {}
    positions = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)
    return {"attention_mask": attention_mask, "position_ids": positions}
