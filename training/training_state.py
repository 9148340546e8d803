"""What a resumed training needs besides the component, in safetensors and JSON (no pickle)."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerState

from training.errors import ResumeError

OPTIMIZER_TENSORS = "optimizer.safetensors"
OPTIMIZER_GROUPS = "optimizer.json"
# State of each parameter by its name: {"lora_A.weight": {"exp_avg": [r, d], ...}}.
StateByName = dict[str, dict[str, torch.Tensor]]


@dataclass(frozen=True)
class TrainingStateCopy:
    """What training_state/ is written from; nothing in it changes with the next step.

    Attributes:
        optimizer: whole tensors on the CPU, by parameter name.
        groups: the optimizer's groups without their parameters.
        processes: random state and pending loss of each process.
        progress: contents of progress.json.
        trainer: steps, epochs and logged figures.
    """

    optimizer: StateByName
    groups: list[dict[str, Any]]
    processes: list[tuple[int, Any]]
    progress: dict[str, Any]
    trainer: TrainerState


def write_optimizer(state: StateByName, groups: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write an optimizer's state: tensors by parameter name, the groups' settings as JSON."""
    tensors = {
        f"{name}.{key}": value.contiguous()
        for name, values in state.items()
        for key, value in values.items()
    }
    save_file(tensors, folder / OPTIMIZER_TENSORS)
    settings = [{k: v for k, v in group.items() if k != "params"} for group in groups]
    (folder / OPTIMIZER_GROUPS).write_text(json.dumps(settings))


def read_optimizer(folder: Path, names: Sequence[str]) -> tuple[StateByName, list[dict[str, Any]]]:
    """What `write_optimizer` wrote, for the parameters that train now.

    Args:
        names: parameters in the order of the optimizer's groups; a state by number, as earlier
            versions wrote it, is read in this order.

    Raises:
        ResumeError: the state is of other parameters.
    """
    state: StateByName = {}
    for key, value in load_file(folder / OPTIMIZER_TENSORS).items():
        name, _, part = key.rpartition(".")
        if name.isdigit() and int(name) < len(names):
            name = names[int(name)]
        state.setdefault(name, {})[part] = value
    # Before the first step there is no state at all.
    strangers = sorted(set(names) ^ state.keys()) if state else []
    if strangers:
        raise ResumeError(
            f"{folder / OPTIMIZER_TENSORS} is of another model: {len(strangers)} parameters are "
            f"only in one of the two, such as {strangers[0]}. Resume with the recipe that wrote it"
        )
    groups = json.loads((folder / OPTIMIZER_GROUPS).read_text())
    for group in groups:
        if isinstance(group.get("betas"), list):
            group["betas"] = tuple(group["betas"])
    return state, groups


def rng_state() -> dict[str, Any]:
    """State of Python's, numpy's and torch's generators on this process, ready for JSON."""
    numpy_state = np.random.get_state(legacy=False)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()  # type: ignore[index]
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "python": random.getstate(),
        "numpy": numpy_state,
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "cuda": [state.numpy().tobytes().hex() for state in cuda],
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore what `rng_state` returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    numpy_state = state["numpy"]
    numpy_state["state"]["key"] = np.asarray(numpy_state["state"]["key"], dtype=np.uint32)
    np.random.set_state(numpy_state)
    torch.set_rng_state(_tensor(state["torch"]))
    for device, hexadecimal in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(_tensor(hexadecimal), device)


def _tensor(hexadecimal: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(hexadecimal), dtype=torch.uint8)
