"""Make a trained component small and traceable: bfloat16 weights and a manifest of its making.

training/ship.py --component runs/ras --data runs/subq --out checkpoints/ras_smollm2

The manifest names every subset that the data's card has, with its licence. A subset under a licence
that forbids commercial use is refused. A component that went on from a shipped one has the subsets
of that one too, and one that learned from outcomes has its rollouts:

training/ship.py --component runs/improve/best --data checkpoints/ras_smollm2 \\
    --data runs/improve/round-01/rollout --licence questions_trajectories=MIT --out OUT
"""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from common.commands import command_parser, one_line_errors
from common.files import file_sha256
from common.licences import NOT_STATED, data_subsets, is_non_commercial
from common.tables import emit_json, print_table
from evaluation.runs import RESULTS_FILE
from models.files.checkpoint import (
    METRICS_FILE,
    CheckpointError,
    component_provenance,
    objective_kinds,
    package_versions,
    read_component_config,
    write_component,
)
from models.files.weights import copy_descriptions, copy_weights
from models.formats.trajectories import TRAJECTORIES_FILE

# Where things lay on the machine that trained says nothing to others.
LOCAL_SETTINGS = ("output_dir", "data")


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--component", required=True, type=Path, help="folder that a training wrote")
    add(
        "--data", required=True, type=Path, action="append",
        help="folder of the training data, with its card.json; of the shipped component that "
        "training went on from; or of a rollout; several times for several",
    )  # fmt: skip
    add("--out", required=True, type=Path, help="folder to write (replaced whole)")
    add(
        "--licence", type=named_licence, action="append", default=[], metavar="SUBSET=LICENCE",
        help="licence of a subset whose card states none",
    )  # fmt: skip
    add(
        "--allow-non-commercial", action="store_true",
        help="ship what was trained on data that forbids commercial use",
    )  # fmt: skip
    add(
        "--least-margin", type=float, metavar="X",
        help="of an extractive reader: how far an answer's score must lie above that of none, as "
        "benchmarks/reading.py --thresholds shows (as it is)",
    )  # fmt: skip
    add("--json", action="store_true", help="print the manifest as one JSON object")
    return parser


def named_licence(text: str) -> tuple[str, str]:
    """An argparse type for SUBSET=LICENCE."""
    subset, _, licence = text.partition("=")
    if not subset or not licence:
        raise argparse.ArgumentTypeError(f"{text!r}: write SUBSET=LICENCE")
    return subset, licence


def with_licences(
    subsets: Sequence[Mapping[str, Any]], licences: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The subsets, those without a licence under what `licences` says of them.

    Raises CheckpointError for a subset in `licences` that is none, or that states one.
    """
    open_ones = {row["subset"] for row in subsets if row["licence"] == NOT_STATED}
    for name in licences:
        if name not in open_ones:
            raise CheckpointError(
                f"--licence {name}: no subset of that name lacks a licence; such are "
                f"{', '.join(sorted(open_ones)) or 'none'}"
            )
    return [
        {**row, "licence": licences.get(row["subset"], NOT_STATED)}
        if row["licence"] == NOT_STATED
        else dict(row)
        for row in subsets
    ]


def refuse_non_commercial(subsets: Sequence[Mapping[str, Any]]) -> None:
    """Raises CheckpointError where a subset's licence forbids commercial use."""
    for row in subsets:
        if is_non_commercial(row["licence"]):
            raise CheckpointError(
                f"trained on {row['subset']}, whose licence {row['licence']} forbids commercial "
                "use. Train on other data, or say --allow-non-commercial"
            )


def refuse_unnamed_outcomes(metrics: Mapping[str, Any], data: Sequence[Path]) -> None:
    """Raise CheckpointError where a component learned from outcomes and no rollout is named.

    Of an average each part may have.
    """
    kinds = objective_kinds(metrics) - {"imitation"}
    if kinds and not any((folder / TRAJECTORIES_FILE).is_file() for folder in data):
        raise CheckpointError(
            f"trained with objective.kind={' and '.join(sorted(kinds))}: name with --data the "
            "folder of each rollout that it, and what it went on from, learned from"
        )


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


def described_data(folders: Sequence[Path], licences: Mapping[str, str]) -> dict[str, Any]:
    """Return what is said of the data: the subsets of all, each once, and their splits' sum.

    Raises FileNotFoundError for a folder that says nothing. CheckpointError: see `with_licences`.
    """
    cards = [_described(folder) for folder in folders]
    splits: Counter[str] = Counter()
    for card in cards:
        splits.update(card.get("splits", {}))
    seeds = {card["seed"] for card in cards if "seed" in card}
    found = [row for card in cards for row in card["subsets"]]
    distinct = {json.dumps(row, sort_keys=True): row for row in found}
    return {
        **({"seed": seeds.pop()} if len(seeds) == 1 else {}),
        **({"splits": dict(splits)} if splits else {}),
        "subsets": with_licences(list(distinct.values()), licences),
    }


def _described(folder: Path) -> dict[str, Any]:
    """Return the seed, splits and subsets of a shipped component, of a rollout, or of a card."""
    # A component that a training wrote, and that was not shipped, does not say.
    if data := component_provenance(folder).get("data"):
        return dict(data)
    drawn = folder / TRAJECTORIES_FILE
    if drawn.is_file():
        results = json.loads((folder / RESULTS_FILE).read_text(encoding="utf-8"))
        subset = {
            "subset": f"{results['dataset']}_trajectories",
            "file": drawn.name,
            "sha256": file_sha256(drawn),
            "records": results["trajectories"],
            "licence": NOT_STATED,
        }
        return {"splits": {"train": results["trajectories"]}, "subsets": [subset]}
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    return {**card, "subsets": data_subsets(card.get("sources", []))}


def provenance(
    metrics: dict[str, Any], data: Sequence[Path], licences: Mapping[str, str]
) -> dict[str, Any]:
    """What a manifest says beside hashes: the data's subsets, the figures, the versions."""
    return {
        "data": described_data(data, licences),
        "metrics": metrics,
        "versions": package_versions(),
    }


def ship(
    component: Path,
    data: Sequence[Path],
    out: Path,
    licences: Mapping[str, str] | None = None,
    allow_non_commercial: bool = False,
    least_margin: float | None = None,
) -> dict[str, Any]:
    """Write `out` and return its manifest.

    data: folders with a card each, of shipped components or of rollouts. licences: of
    subsets that state none. least_margin: of an extractive reader; None leaves it.

    Raises:
        CheckpointError: `component` is none or truncated, `out` cannot be written, a subset's
            licence forbids commercial use and that is not allowed, or it learned from outcomes and
            no rollout is named.
        FileNotFoundError: a folder of `data` says nothing, or the component has no metrics.
    """
    config = read_component_config(component)
    metrics = shipped_metrics(component)
    refuse_unnamed_outcomes(metrics, data)
    if least_margin is not None:
        if "least_margin" not in config:
            raise CheckpointError(f"--least-margin: {component} is no extractive reader")
        config["least_margin"] = least_margin
    made_of = provenance(metrics, data, licences or {})
    if not allow_non_commercial:
        refuse_non_commercial(made_of["data"]["subsets"])

    def write(target: Path) -> None:
        copy_descriptions(component, target)
        (target / METRICS_FILE).write_text(json.dumps(made_of["metrics"], indent=2) + "\n")
        copy_weights(component, target, torch.bfloat16)

    write_component(out, config, write, provenance=made_of)
    manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    return manifest


@one_line_errors()
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    manifest = ship(
        arguments.component, arguments.data, arguments.out, dict(arguments.licence),
        arguments.allow_non_commercial, arguments.least_margin,
    )  # fmt: skip
    rows = [[name, entry["bytes"]] for name, entry in manifest["files"].items()]
    print_table(f"Shipped to {arguments.out}", ["file", "bytes"], rows)
    columns = ["subset", "records", "licence"]
    trained_on = [[row[name] for name in columns] for row in manifest["data"]["subsets"]]
    print_table("Trained on", columns, trained_on)
    if arguments.json:
        emit_json(manifest)


if __name__ == "__main__":
    main()
