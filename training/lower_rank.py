"""Give a component's adapter a lower rank: the nearest of that rank to each of its updates.

training/lower_rank.py --component checkpoints/t2t_smollm2 --rank 8 --out runs/t2t_rank_8

The largest singular values of each update are kept (Eckart and Young 1936); the table says how much
of it they hold. Measure what comes out like any component, and train it on from there
(`model.start_from`). The data's subsets in the manifest stay; the figures of the component that it
was made of stand under `lowered` in metrics.json.
"""

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from common.commands import command_parser, one_line_errors
from common.errors import UserError
from common.tables import emit_json, print_table
from models.files.checkpoint import (
    METRICS_FILE,
    component_fingerprint,
    component_metrics,
    component_provenance,
    read_component_config,
    write_component,
)
from models.parts.adapters import ADAPTER_CONFIG, ADAPTER_WEIGHTS

DOWN, UP = "lora_A.weight", "lora_B.weight"


class RankError(UserError, ValueError):
    """A component whose rank cannot be lowered so far; the message says why."""


def lower_update(down: Tensor, up: Tensor, rank: int) -> tuple[Tensor, Tensor, float]:
    """Return the nearest update of a lower rank, and the share of the update's energy that it has.

    down: [R, in]; up: [out, R]; their product is the update. Returns [rank, in] and [out, rank],
    and the sum of the kept squared singular values over that of all. The halves share the singular
    values, so that neither trains faster than the other.
    """
    basis_out, mixed_out = torch.linalg.qr(up.double())
    basis_in, mixed_in = torch.linalg.qr(down.double().T)
    left, values, right = torch.linalg.svd(mixed_out @ mixed_in.T, full_matrices=False)
    kept = min(rank, len(values))
    root = values[:kept].sqrt()
    # A layer that is narrower than the rank leaves the rest at nothing.
    lower_down, lower_up = down.new_zeros(rank, down.shape[1]), up.new_zeros(len(up), rank)
    lower_down[:kept] = root[:, None] * (right[:kept] @ basis_in.T)
    lower_up[:, :kept] = basis_out @ left[:, :kept] * root
    energy = values.square()
    share = float(energy[:kept].sum() / energy.sum()) if energy.sum() else 1.0
    return lower_down, lower_up, share


def lower_weights(
    weights: Mapping[str, Tensor], rank: int
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Return an adapter's tensors with every update of a lower rank, and what each keeps of it."""
    lowered, kept = dict(weights), {}
    for name in weights:
        if name.endswith(DOWN):
            other = name.removesuffix(DOWN) + UP
            module = name.removesuffix(f".{DOWN}")
            lowered[name], lowered[other], kept[module] = lower_update(
                weights[name], weights[other], rank
            )
    return lowered, kept


def lower_rank(folder: Path, rank: int, out: Path) -> dict[str, float]:
    """Write a component with an adapter of a lower rank; returns what each update keeps of itself.

    Raises:
        RankError: a component without an adapter, or a rank that is not below the adapter's.
        CheckpointError: a folder that is no component, or is damaged.
    """
    config = read_component_config(folder)
    had = config.get("lora_rank", 0)
    weights = load_file(folder / ADAPTER_WEIGHTS) if (folder / ADAPTER_WEIGHTS).is_file() else {}
    if not any(name.endswith(DOWN) for name in weights):
        raise RankError(f"{folder} has no LoRA: only the rank of an adapter can be lowered")
    if not 0 < rank < had:
        raise RankError(f"{folder} has rank {had}: give --rank from 1 to {had - 1}")
    # What scales the update, alpha / rank, stays.
    alpha = config["lora_alpha"] * rank / had
    if alpha != int(alpha):
        raise RankError(
            f"{folder}: alpha {config['lora_alpha']} over rank {had} is no whole alpha at rank "
            f"{rank}. Give another rank"
        )
    lowered, kept = lower_weights(weights, rank)
    described = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    config |= {"lora_rank": rank, "lora_alpha": int(alpha)}
    described |= {"r": rank, "lora_alpha": int(alpha)}
    metrics = _lowered_metrics(folder, had)
    provenance = component_provenance(folder)
    if "metrics" in provenance:
        provenance["metrics"] = metrics

    def write(target: Path) -> None:
        for file in folder.glob("*.safetensors"):
            if file.name != ADAPTER_WEIGHTS:
                shutil.copyfile(file, target / file.name)
        save_file(lowered, target / ADAPTER_WEIGHTS, metadata={"format": "pt"})
        for name, value in ((ADAPTER_CONFIG, described), (METRICS_FILE, metrics)):
            text = json.dumps(value, indent=2) + "\n"
            (target / name).write_text(text, encoding="utf-8")

    write_component(out, config, write, provenance=provenance)
    return kept


def _lowered_metrics(folder: Path, rank: int) -> dict[str, Any]:
    """Return a component's metrics with its figures under `lowered`: they were of another rank."""
    metrics = component_metrics(folder)
    figures = {name: value for name, value in metrics.items() if name.startswith("eval_")}
    lowered = {
        "component": folder.name,
        "fingerprint": component_fingerprint(folder),
        "rank": rank,
        "figures": figures,
    }
    return {n: v for n, v in metrics.items() if n not in figures} | {"lowered": lowered}


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--component", required=True, type=Path, metavar="DIR", help="component folder")
    add("--rank", required=True, type=int, metavar="R", help="of the adapter, below what it has")
    add("--out", required=True, type=Path, help="component folder to write (replaced whole)")
    add("--json", action="store_true", help="print each update's share as one JSON object")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    kept = lower_rank(arguments.component, arguments.rank, arguments.out)
    by_kind: dict[str, list[float]] = {}
    for module, share in kept.items():
        by_kind.setdefault(module.rsplit(".", 1)[-1], []).append(share)
    rows = [
        [kind, len(shares), sum(shares) / len(shares), min(shares)]
        for kind, shares in by_kind.items()
    ]
    columns = ["layers", "number", "energy kept, mean", "least"]
    print_table(f"Rank {arguments.rank} in {arguments.out}", columns, rows)
    if arguments.json:
        emit_json({"out": str(arguments.out), "rank": arguments.rank, "kept": kept})


if __name__ == "__main__":
    main()
