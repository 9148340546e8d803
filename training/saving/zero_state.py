"""Whole parameters and optimizer state out of ZeRO-2 and ZeRO-3, and back, by parameter name.

ZeRO's optimizer works on flat tensors, a part of which each process owns; DeepSpeed finds the
pieces of a parameter in them. Every function here is called by all processes together.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any

import torch
from torch import nn

from training.saving.state import StateByName

# AdamW's count of steps: a number for a flat tensor, and so for all parameters in it.
STEP = "step"


def zero_optimizer(optimizer: Any) -> Any:
    """DeepSpeed's optimizer inside accelerate's wrapper; None where it is another one."""
    inner = getattr(optimizer, "optimizer", None)
    return inner if hasattr(inner, "averaged_gradients") else None


def whole_parameters(module: nn.Module) -> AbstractContextManager[Any]:
    """In the block, the trained parameters that ZeRO-3 has split are whole.

    What changes them there is lost; see `load_parameters`.
    """
    split = _split(module)
    return _gathered(split, None) if split else nullcontext()


@torch.no_grad()
def load_parameters(module: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Copy whole tensors into the trained parameters of these names, on all processes."""
    with _gathered(split, 0) if (split := _split(module)) else nullcontext():
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(weights[name])
    for parameter in module.parameters():
        mapping = getattr(parameter, "_hp_mapping", None)
        if parameter.requires_grad and mapping is not None:
            # The part of ZeRO-2's own copy that this process steps.
            mapping.update_hp()


def whole_optimizer_state(zero: Any, names: Sequence[str]) -> StateByName:
    """The optimizer's state by parameter name, as whole tensors on the CPU.

    Args:
        zero: what `zero_optimizer` gave.
        names: parameters in the order of the optimizer's groups.
    """
    from deepspeed.utils import safe_get_full_optimizer_state

    flat = _flat_states(zero)
    if not flat:
        return {}
    _link(zero)
    steps = flat[0][STEP].detach().cpu()
    keys = sorted(flat[0].keys() - {STEP})
    return {
        name: {
            **{key: safe_get_full_optimizer_state(parameter, key).cpu() for key in keys},
            STEP: steps.clone(),
        }
        for name, parameter in zip(names, _parameters(zero), strict=True)
    }


def load_optimizer_state(
    zero: Any, names: Sequence[str], state: StateByName, groups: list[dict[str, Any]]
) -> None:
    """Give ZeRO's optimizer a state by name, and its groups their settings."""
    for own, given in zip(zero.optimizer.param_groups, groups, strict=True):
        own.update({key: value for key, value in given.items() if key != "params"})
    if not state:
        return
    keys = sorted(state[names[0]].keys() - {STEP})
    # As torch's own load_state_dict has it.
    on_device = any(g.get("fused") or g.get("capturable") for g in zero.optimizer.param_groups)
    for tensor in _flat_tensors(zero):
        device = tensor.device if on_device else torch.device("cpu")
        zero.optimizer.state[tensor] = {
            STEP: state[names[0]][STEP].clone().to(device),
            **{key: torch.zeros_like(tensor) for key in keys},
        }
    _link(zero)
    for name, parameter in zip(names, _parameters(zero), strict=True):
        for key in keys:
            _set_part(parameter, state[name][key], key)


def _set_part(parameter: Any, value: torch.Tensor, key: str) -> None:
    """Copy this process's part of a whole tensor into the optimizer's state."""
    from deepspeed.utils import safe_set_full_optimizer_state, safe_set_local_optimizer_state

    if not hasattr(parameter, "ds_id"):
        safe_set_full_optimizer_state(parameter, value.to(parameter.device), key)
        return
    # The last part of a parameter that does not divide is filled up; DeepSpeed reads past its end.
    size = parameter.ds_tensor.numel()
    first = size * torch.distributed.get_rank(parameter.ds_process_group)
    mine = value.flatten()[first : first + size]
    filled = torch.nn.functional.pad(mine, (0, size - mine.numel()))
    safe_set_local_optimizer_state(parameter, filled.to(parameter.ds_tensor.device), key)


def _link(zero: Any) -> None:
    """ZeRO-2 shows parameters the flat state only once it has stepped or is asked to."""
    if hasattr(zero, "_hp_optimizer_states_linked"):
        zero._hp_optimizer_states_linked = False
        zero._lazy_init_hp_params_optimizer_state()


def _parameters(zero: Any) -> Iterator[Any]:
    """The trained parameters in the order of the optimizer's groups."""
    return chain.from_iterable(getattr(zero, "fp16_groups", None) or zero.bit16_groups)


def _flat_tensors(zero: Any) -> list[torch.Tensor]:
    """What the inner optimizer steps: this process's part of each group."""
    flat = getattr(zero, "fp32_partitioned_groups_flat", None)
    return list(zero.single_partition_of_fp32_groups if flat is None else flat)


def _flat_states(zero: Any) -> list[dict[str, torch.Tensor]]:
    states = zero.optimizer.state
    return [states[tensor] for tensor in _flat_tensors(zero) if states.get(tensor)]


def _split(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters() if p.requires_grad and hasattr(p, "ds_id")]


def _gathered(parameters: list[nn.Parameter], changed_by: int | None) -> Any:
    from deepspeed import zero

    return zero.GatheredParameters(parameters, modifier_rank=changed_by)
