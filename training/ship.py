"""Make a trained component small and traceable: bfloat16 weights and a manifest of its making.

training/ship.py --component runs/ras --data runs/subq --out checkpoints/ras_smollm2
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from evaluation.report import emit_json, print_table
from models.checkpoint import (
    METRICS_FILE,
    CheckpointError,
    read_component_config,
    write_component,
)
from models.lora import copy_adapter_config
from models.manifest import package_versions
from models.weights import copy_weights

CARD_FIELDS = ("sources", "seed", "splits")
# Where things lay on the machine that trained says nothing to others.
LOCAL_SETTINGS = ("output_dir", "data")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--component", required=True, type=Path, help="folder that a training wrote")
    add("--data", required=True, type=Path, help="folder of the training data, with its card.json")
    add("--out", required=True, type=Path, help="folder to write (replaced whole)")
    add("--json", action="store_true", help="print the manifest as one JSON object")
    return parser


def shipped_metrics(component: Path) -> dict[str, Any]:
    """The run's figures and settings, without the paths of the machine that it ran on."""
    metrics: dict[str, Any] = json.loads((component / METRICS_FILE).read_text(encoding="utf-8"))
    # An average keeps the figures of its last part one level down.
    for figures in (metrics, metrics.get("last_part", {})):
        settings = figures.get("settings", {})
        for name in LOCAL_SETTINGS:
            settings.pop(name, None)
        model = settings.get("model", {})
        if model.get("start_from"):
            model["start_from"] = Path(model["start_from"]).name
    return metrics


def provenance(metrics: dict[str, Any], data: Path) -> dict[str, Any]:
    """What a manifest says beside hashes: the data's card, the figures, the versions."""
    card = json.loads((data / "card.json").read_text(encoding="utf-8"))
    return {
        "data": {name: card[name] for name in CARD_FIELDS if name in card},
        "metrics": metrics,
        "versions": package_versions(),
    }


def ship(component: Path, data: Path, out: Path) -> dict[str, Any]:
    """Write `out` and return its manifest.

    Raises CheckpointError when `component` is none, is truncated, or `out` cannot be written, and
    FileNotFoundError when `data` has no card or the component no metrics.
    """
    config = read_component_config(component)
    metrics = shipped_metrics(component)

    def write(target: Path) -> None:
        copy_adapter_config(component, target)
        (target / METRICS_FILE).write_text(json.dumps(metrics, indent=2) + "\n")
        copy_weights(component, target, torch.bfloat16)

    write_component(out, config, write, provenance=provenance(metrics, data))
    manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    return manifest


def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    try:
        manifest = ship(arguments.component, arguments.data, arguments.out)
    except (CheckpointError, FileNotFoundError) as error:
        sys.exit(f"error: {error}")
    rows = [[name, entry["bytes"]] for name, entry in manifest["files"].items()]
    print_table(f"Shipped to {arguments.out}", ["file", "bytes"], rows)
    if arguments.json:
        emit_json(manifest)


if __name__ == "__main__":
    main()
