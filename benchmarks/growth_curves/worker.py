"""One curve of benchmarks/growth.py in a process of its own; its last line is one JSON object."""

import json
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.growth_curves import loops, models
from benchmarks.growth_curves.fit import exponent, is_above, measure
from benchmarks.harness.settings import FiledSettings
from common.commands import command_parser

CURVES = {**models.CURVES, **loops.CURVES}


@dataclass(frozen=True)
class GrowthSettings(FiledSettings):
    """How far and how often a curve is measured.

    backbone: of those that need one. point_seconds: sizes double until one takes so long.
    points: most sizes. repeats: runs of a size, of which the least counts.
    """

    backbone: str = "smollm2"
    point_seconds: float = 5.0
    points: int = 8
    repeats: int = 2
    threads: int = 1


def run(name: str, folder: Path) -> dict[str, Any]:
    """Measure a curve and return its points and exponent."""
    settings = GrowthSettings.read(folder)
    torch.set_num_threads(settings.threads)
    torch.manual_seed(0)
    curve = CURVES[name]
    points = measure(
        curve, settings.backbone, settings.point_seconds, settings.points, settings.repeats
    )
    found = exponent(points)
    return {
        "unit": curve.unit,
        "points": [point._asdict() for point in points],
        "exponent": found,
        "possible": curve.possible,
        "above_possible": is_above(found, curve.possible),
    }


def main() -> None:
    """Measure the curve that is named."""
    parser = command_parser(__doc__)
    parser.add_argument("folder", type=Path, help="folder with settings.json")
    parser.add_argument("curve", choices=list(CURVES))
    arguments = parser.parse_args()
    with redirect_stdout(sys.stderr):
        figures = run(arguments.curve, arguments.folder)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
