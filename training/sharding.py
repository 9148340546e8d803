"""Whole parameters and optimizer state, however the processes have split them among each other.

A checkpoint holds whole tensors by name, so that it moves between one process, data parallelism,
ZeRO and FSDP. Every function here is called by all processes together.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from training.training_state import StateByName


@contextmanager
def whole_parameters(module: nn.Module) -> Iterator[None]:
    """Inside the block every trained parameter of `module` is whole on the main process."""
    yield


def whole_optimizer_state(optimizer: Any, names: Sequence[str]) -> StateByName:
    """The optimizer's state by parameter name, as whole tensors on the CPU.

    Args:
        names: parameters in the order of the optimizer's groups.
    """
    return {
        names[number]: {key: torch.as_tensor(value).detach().cpu() for key, value in values.items()}
        for number, values in optimizer.state_dict()["state"].items()
    }


def load_optimizer_state(
    optimizer: Any, names: Sequence[str], state: StateByName, groups: list[dict[str, Any]]
) -> None:
    """Give the optimizer a state that `whole_optimizer_state` returned."""
    numbers = {name: number for number, name in enumerate(names)}
    given = optimizer.state_dict()["param_groups"]
    merged = [{**new, "params": old["params"]} for old, new in zip(given, groups, strict=True)]
    by_number = {numbers[name]: values for name, values in state.items()}
    optimizer.load_state_dict({"state": by_number, "param_groups": merged})
