"""Average the weights of components that one training led to from another (model soup).

training/average.py --component checkpoints/t2t_smollm2 --component runs/t2t --out runs/average

A stage on new data gains there and may lose elsewhere; the mean of before and after often keeps
both (Wortsman et al. 2022). Measure it like any component.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from common.commands import command_parser, one_line_errors
from common.errors import UserError
from common.tables import emit_json, print_table
from models.files.checkpoint import (
    METRICS_FILE,
    component_fingerprint,
    component_metrics,
    objective_kinds,
    read_component_config,
    write_component,
)
from models.files.weights import copy_descriptions, load_weights, save_weights

Weights = dict[str, dict[str, torch.Tensor]]


class AverageError(UserError, ValueError):
    """Components that have no mean; the message says how they differ."""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add(
        "--component", required=True, type=Path, action="append", metavar="DIR",
        help="component folder, twice or more; settings and figures come from the last",
    )  # fmt: skip
    add(
        "--weight", type=float, action="append", metavar="W",
        help="share of each component, in order (default: equal)",
    )  # fmt: skip
    add("--out", required=True, type=Path, help="component folder to write (replaced whole)")
    add("--json", action="store_true", help="print what was averaged as one JSON object")
    return parser


def read_weights(folder: Path) -> Weights:
    """Every tensor of a component in float32, by file."""
    return {
        file: {name: tensor.float() for name, tensor in tensors.items()}
        for file, tensors in load_weights(folder).items()
    }


def mean_weights(parts: Sequence[Weights], shares: Sequence[float]) -> Weights:
    """The weighted mean, tensor by tensor.

    Raises:
        AverageError: a tensor that another component lacks or has in another shape.
    """
    shapes = [{(f, n): t.shape for f, ts in part.items() for n, t in ts.items()} for part in parts]
    for other in shapes[1:]:
        differing = shapes[0].items() ^ other.items()
        if differing:
            file, name = min(key for key, _ in differing)
            raise AverageError(
                f"'{name}' in {file} is not the same in all components: average components of "
                "one backbone and one recipe"
            )
    total = sum(shares)
    return {
        file: {
            name: torch.stack(
                [part[file][name] * (w / total) for part, w in zip(parts, shares, strict=True)]
            ).sum(dim=0)
            for name in tensors
        }
        for file, tensors in parts[0].items()
    }


def average(folders: Sequence[Path], shares: Sequence[float], out: Path) -> list[dict[str, Any]]:
    """Write the mean component; returns its parts by fingerprint and share.

    Raises:
        AverageError: one component alone, shares that do not fit, or weights that differ in shape.
        CheckpointError: a folder that is no component, or is damaged.
    """
    if len(folders) < 2 or len(shares) != len(folders) or min(shares) <= 0:
        raise AverageError(
            f"{len(folders)} components and the weights {list(shares)}: give two components or "
            "more, and a positive weight for each"
        )
    configs = [read_component_config(folder) for folder in folders]
    for name in ("component", "backbone_id"):
        if len({config.get(name) for config in configs}) > 1:
            raise AverageError(f"the components differ in '{name}': their mean means nothing")
    weights = mean_weights([read_weights(folder) for folder in folders], shares)
    parts = [
        {
            "component": folder.name,
            "fingerprint": component_fingerprint(folder),
            "weight": share,
            "objectives": sorted(objective_kinds(component_metrics(folder))),
        }
        for folder, share in zip(folders, shares, strict=True)
    ]

    def write(target: Path) -> None:
        save_weights(weights, target)
        copy_descriptions(folders[-1], target)
        metrics = {"averaged": parts, "last_part": component_metrics(folders[-1])}
        (target / METRICS_FILE).write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")

    write_component(out, configs[-1], write)
    return parts


@one_line_errors()
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    shares = arguments.weight or [1.0] * len(arguments.component)
    parts = average(arguments.component, shares, arguments.out)
    rows = [[part["component"], part["fingerprint"], part["weight"]] for part in parts]
    print_table(f"Averaged to {arguments.out}", ["component", "fingerprint", "weight"], rows)
    if arguments.json:
        emit_json({"out": str(arguments.out), "averaged": parts})


if __name__ == "__main__":
    main()
