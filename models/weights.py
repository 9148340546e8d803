"""Stored weights in another precision."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def copy_weights(source: Path, target: Path, dtype: torch.dtype) -> None:
    """Write every safetensors file of `source` into `target`, which may be `source` itself."""
    for path in source.glob("*.safetensors"):
        tensors = {name: tensor.to(dtype) for name, tensor in load_file(path).items()}
        save_file(tensors, target / path.name, metadata={"format": "pt"})
