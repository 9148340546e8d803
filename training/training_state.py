"""What a resumed training needs besides the component, in safetensors and JSON (no pickle)."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

OPTIMIZER_TENSORS = "optimizer.safetensors"
OPTIMIZER_GROUPS = "optimizer.json"


def save_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Write the optimizer's state: tensors by parameter number, param groups as JSON."""
    state = optimizer.state_dict()
    tensors = {
        f"{number}.{name}": torch.as_tensor(value).detach().cpu().contiguous()
        for number, values in state["state"].items()
        for name, value in values.items()
    }
    save_file(tensors, folder / OPTIMIZER_TENSORS)
    (folder / OPTIMIZER_GROUPS).write_text(json.dumps(state["param_groups"]))


def load_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Restore what `save_optimizer` wrote.

    Raises:
        ValueError: the state belongs to other parameter groups.
    """
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in load_file(folder / OPTIMIZER_TENSORS).items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    groups = json.loads((folder / OPTIMIZER_GROUPS).read_text())
    for group in groups:
        if isinstance(group.get("betas"), list):
            group["betas"] = tuple(group["betas"])
    optimizer.load_state_dict({"state": state, "param_groups": groups})


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
