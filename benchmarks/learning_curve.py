#!/usr/bin/env python3
"""Measure what more samples are worth to a component: one pass over so many, from one start.

python benchmarks/learning_curve.py --component span_reader \\
    --config configs/span_reader_minilm.yaml --train TRAIN.jsonl --dev DEV.jsonl --dir DIR

The smaller sets are parts of the larger ones, and each training has the recipe's whole schedule.
A run goes on in the folder of one with the same settings that was interrupted. The last line of the
output is one JSON object.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.harness.processes import ROOT, available_threads, benchmark_parser
from benchmarks.harness.recipes import run_recipe
from benchmarks.harness.run_folder import claim, settings_of
from common.errors import UserError
from common.tables import emit_json, print_table
from inference.opening.arguments import command, positive_int, whole_number

COMPONENTS = ("ras", "t2t", "tri_rag", "helper", "span_reader")
# Options that decide no figure of a point.
UNTOLD = ("json", "dir", "sizes", "threads")
SIZES = (1_000, 4_000, 16_000, 64_000)
LOSS = "eval_loss"
COLUMNS = {
    "steps": "steps",
    "minutes": "minutes",
    "train_tokens_per_second": "tokens/s",
    LOSS: "held-out loss",
}


class TooFewSamplesError(UserError, ValueError):
    """A file that holds fewer samples than a point of the curve needs; says how many."""


def check_sizes(train: Path, sizes: Sequence[int]) -> None:
    """Raise TooFewSamplesError where the file has fewer lines than the largest size."""
    with train.open("rb") as handle:
        held = sum(1 for line in handle if line.strip())
    if held < max(sizes):
        raise TooFewSamplesError(
            f"{train}: holds {held} samples, and --sizes asks for {max(sizes)}. Build more, or "
            "leave the larger sizes out"
        )


def point(size: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures after one pass over so many samples. Raises PartFailedError."""
    values: dict[str, object] = {
        "output_dir": options.dir / str(size),
        "data.train": options.train,
        "data.dev": options.dev,
        "data.max_train_samples": size,
        "data.max_dev_samples": options.dev_samples,
        "data.skip_cut_labels": "true",
        "train.num_train_epochs": 1,
        "train.max_steps": 0,
        "train.max_train_minutes": 0,
        "train.seed": options.seed,
        "train.resume": "auto",
        "train.tensorboard": "false",
        "validation.samples": options.validation_samples,
    }
    script = ROOT / "training" / f"train_{options.component}.py"
    figures = run_recipe(script, options.config, values, options.threads, options.values)
    return {**figures, "minutes": figures["train_seconds"] / 60}


def fourfold(curve: Mapping[int, Mapping[str, float]]) -> list[float]:
    """Return by what the loss is multiplied where samples grow fourfold, between each two points.

    Along a power law (Hestness et al., 2017) all of them are the same.
    """
    points = sorted((size, figures[LOSS]) for size, figures in curve.items())
    return [
        (later / earlier) ** (math.log(4) / math.log(more / fewer))
        for (fewer, earlier), (more, later) in pairwise(points)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--component", required=True, choices=COMPONENTS, help="what is trained")
    add("--config", required=True, type=Path, help="its recipe")
    add("--train", required=True, type=Path, help="samples to learn from")
    add("--dev", required=True, type=Path, help="samples held back")
    add("--dir", required=True, type=Path, help="folder to work in, kept")
    add(
        "--sizes", type=positive_int, nargs="+", default=SIZES, metavar="N",
        help=f"samples of each training (default: {' '.join(map(str, SIZES))})",
    )  # fmt: skip
    add("--values", nargs="*", default=[], metavar="KEY=VALUE", help="further ones of the recipe")
    add("--dev-samples", type=positive_int, default=500, help="of the loss (default: 500)")
    add(
        "--validation-samples", type=whole_number(0), default=0,
        help="that outputs are made for and scored; 0: none (default: 0)",
    )  # fmt: skip
    add("--threads", type=positive_int, default=available_threads(), help="default: all cores")
    add("--seed", type=int, default=0, help="of the shuffle and the trainings (default: 0)")
    return parser


@command
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    sizes = sorted(set(options.sizes))
    check_sizes(options.train, sizes)
    settings = settings_of(options, but=UNTOLD)
    claim(options.dir, settings)
    curve = {
        size: point(size, options) for size in tqdm(sizes, desc="trainings", unit=" trainings")
    }
    rows = [[size, *(figures.get(key) for key in COLUMNS)] for size, figures in curve.items()]
    print_table("One pass over so many samples", ["samples", *COLUMNS.values()], rows)
    emit_json(
        {
            "benchmark": "learning_curve",
            "settings": settings,
            "fourfold": fourfold(curve),
            "curve": curve,
        }
    )


if __name__ == "__main__":
    main()
