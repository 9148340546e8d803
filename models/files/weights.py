"""The weight files of a component: those that its manifest names, read, written and copied."""

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from models.files.checkpoint import (
    CONFIG_FILE,
    MANIFEST_FILE,
    METRICS_FILE,
    NotACheckpointError,
    manifest_files,
)

SUFFIX = ".safetensors"


def weight_files(folder: Path) -> list[str]:
    """Return a component's safetensors files by their path in the folder.

    Raises:
        NotACheckpointError: it has no manifest, or one that names no weights.
    """
    found = [name for name in manifest_files(folder) if name.endswith(SUFFIX)]
    if not found:
        raise NotACheckpointError(f"{folder} has no weights: its {MANIFEST_FILE} names none.")
    return found


def load_weights(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Return every tensor of a component, by file and name. Raises as `weight_files`."""
    return {file: load_file(folder / file) for file in weight_files(folder)}


def save_weights(weights: dict[str, dict[str, torch.Tensor]], folder: Path) -> None:
    """Write tensors by file and name into a folder."""
    for file, tensors in weights.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / file, metadata={"format": "pt"})


def copy_weights(source: Path, target: Path, dtype: torch.dtype) -> None:
    """Write a component's weights into `target`, which may be `source` itself, in `dtype`.

    Raises as `weight_files`.
    """
    for file, tensors in load_weights(source).items():
        cast = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
        save_weights({file: cast}, target)


def copy_descriptions(source: Path, target: Path) -> None:
    """Copy what tells libraries of a component's weights: an adapter's or a model's own files.

    Raises:
        NotACheckpointError: `source` has no manifest.
    """
    own = (CONFIG_FILE, METRICS_FILE, MANIFEST_FILE)
    for name in manifest_files(source):
        if not name.endswith(SUFFIX) and name not in own:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target / name)
