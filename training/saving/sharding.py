"""Whole parameters and optimizer state, however the processes have split them among each other.

A checkpoint holds whole tensors by name, so that it moves between one process, data parallelism
and FSDP. Every function here is called by all processes together.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor

from common.errors import UserError
from training.saving import zero_state
from training.saving.state import StateByName

FSDP_ASKED = "ACCELERATE_USE_FSDP"


class LaunchError(UserError, RuntimeError):
    """The processes that started are not the ones that were asked for."""


def is_asked(variable: str) -> bool:
    """Whether the launcher asked for something by an environment variable."""
    return os.environ.get(variable, "").lower() == "true"


def shard_on_cpu(accelerator: Accelerator) -> None:
    """Make accelerate split parameters on CPUs too, where FSDP was asked for.

    By itself it then copies them to every process without a word.
    """
    state = accelerator.state
    if is_asked(FSDP_ASKED) and state.distributed_type == DistributedType.MULTI_CPU:
        state.fsdp_plugin = FullyShardedDataParallelPlugin()
        state.distributed_type = DistributedType.FSDP


def layer_classes(module: nn.Module) -> list[str]:
    """Classes of the layers that FSDP splits one by one; none: the model as a whole.

    A prompt's keys and values are computed with weights of layers that do not run then, so a
    model with a prompt cannot be split by layers.
    """
    if getattr(module, "prompt", None) is not None:
        return []
    backbone: Any = getattr(module, "backbone", module)
    return sorted(getattr(backbone, "_no_split_modules", None) or [])


def wrap_layers(accelerator: Accelerator, module: nn.Module) -> None:
    """Tell FSDP which layers to split: the backbone's own."""
    plugin = getattr(accelerator.state, "fsdp_plugin", None)
    if plugin is None:
        return
    classes = layer_classes(module)
    if classes:
        plugin.transformer_cls_names_to_wrap = classes
    else:
        plugin.auto_wrap_policy = None


def is_sharded(module: nn.Module) -> bool:
    """Whether a forward pass needs all processes at once."""
    return any(
        isinstance(parameter, DTensor) or hasattr(parameter, "ds_id")
        for parameter in module.parameters()
    )


def check_sharded(accelerator: Accelerator, model: nn.Module) -> None:
    """Look whether parameters are split where that was asked for: it is easily left out.

    Raises:
        LaunchError: no parameter is split.
    """
    # On CPUs accelerate forgets the kind while it prepares the model.
    asked = is_asked(FSDP_ASKED) or accelerator.distributed_type == DistributedType.FSDP
    if asked and not is_sharded(model):
        raise LaunchError(
            "FSDP was asked for, but no parameter is split over the processes. Use FSDP version 2 "
            "(configs/accelerate/fsdp2.yaml) and more than one process"
        )


@contextmanager
def whole_parameters(module: nn.Module) -> Iterator[None]:
    """Inside the block every trained parameter of `module` is whole, and not to be trained."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            # A hook would otherwise do this while the weights are read, and put the parts back.
            part.reshard()
    places: list[tuple[nn.Module, str, Any]] = [
        (owner, name, parameter)
        for owner in module.modules()
        for name, parameter in owner._parameters.items()
        if isinstance(parameter, DTensor) and parameter.requires_grad
    ]
    split = {id(parameter): parameter for *_, parameter in places}
    whole = {key: nn.Parameter(p.full_tensor().detach()) for key, p in split.items()}
    try:
        for owner, name, parameter in places:
            owner._parameters[name] = whole[id(parameter)]
        with zero_state.whole_parameters(module):
            yield
    finally:
        for owner, name, parameter in places:
            owner._parameters[name] = parameter


@torch.no_grad()
def load_parameters(module: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Copy whole tensors into the trained parameters of these names."""
    if any(isinstance(parameter, DTensor) for parameter in module.parameters()):
        weights = {
            name: _split_like(weights[name], parameter)
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }
    zero_state.load_parameters(module, weights)


def whole_optimizer_state(optimizer: Any, names: Sequence[str]) -> StateByName:
    """A copy of the optimizer's state by parameter name, as whole tensors on the CPU.

    Args:
        names: parameters in the order of the optimizer's groups.
    """
    zero = zero_state.zero_optimizer(optimizer)
    if zero is not None:
        return zero_state.whole_optimizer_state(zero, names)
    return {
        names[number]: {key: _whole(value) for key, value in values.items()}
        for number, values in optimizer.state_dict()["state"].items()
    }


def load_optimizer_state(
    optimizer: Any, names: Sequence[str], state: StateByName, groups: list[dict[str, Any]]
) -> None:
    """Give the optimizer a state that `whole_optimizer_state` returned."""
    zero = zero_state.zero_optimizer(optimizer)
    if zero is not None:
        return zero_state.load_optimizer_state(zero, names, state, groups)
    given = optimizer.state_dict()["param_groups"]
    merged = [{**new, "params": old["params"]} for old, new in zip(given, groups, strict=True)]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    by_number = {
        number: {key: _split_like(value, parameter) for key, value in state[name].items()}
        for number, (name, parameter) in enumerate(zip(names, parameters, strict=True))
        if name in state
    }
    optimizer.load_state_dict({"state": by_number, "param_groups": merged})


def _whole(value: Any) -> torch.Tensor:
    tensor = value.full_tensor() if isinstance(value, DTensor) else torch.as_tensor(value)
    return tensor.detach().to("cpu", copy=True)


def _split_like(value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The value as the parameter is split; a count of steps is not split."""
    if not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    return distribute_tensor(
        value.to(parameter.device), parameter.device_mesh, parameter.placements
    )
