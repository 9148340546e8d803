"""How each cost grows with each size: exponents of training, engines, loops, indexes and builds.

    benchmarks/growth.py --curves 'ras, corpus' 'training step, tokens of a sample'

Sizes of a curve double until one takes --point-seconds; its exponent is the slope of log seconds
over log size, of the larger half. Every curve in a process of its own. Loops, indexes and builds
have a scripted perfect model and vectors that are known, so that what grows is our own work. The
last line of the output is one JSON object.
"""

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.growth_curves.worker import CURVES, GrowthSettings
from benchmarks.harness.processes import PartResult, PartRunner, benchmark_parser, in_turn
from common.commands import one_line_errors
from common.provenance import portable_path
from common.tables import emit_json, print_table

WORKER = "benchmarks.growth_curves.worker"
COLUMNS = ("grows with", "from", "seconds", "to", "seconds", "exponent", "possible", "")


def rows(curves: Mapping[str, Mapping[str, Any]]) -> list[list[Any]]:
    """Return a row a curve, for people."""
    found = []
    for name, curve in curves.items():
        if curve["status"] != "ok":
            found.append([name, *[None] * (len(COLUMNS) - 2), curve["status"]])
            continue
        first, last = curve["points"][0], curve["points"][-1]
        ends = [first["size"], first["seconds"], last["size"], last["seconds"]]
        said = "above what is possible" if curve["above_possible"] else ""
        found.append([name, *ends, curve["exponent"], curve["possible"], said])
    return found


def compare(settings: GrowthSettings, names: list[str], limit_seconds: float) -> dict[str, Any]:
    """Measure the curves one after the other; `status` says why one has no figures."""
    with tempfile.TemporaryDirectory() as temporary:
        settings.write(Path(temporary))
        runner = PartRunner(Path(temporary), settings.threads, limit_seconds, WORKER)
        results: dict[str, list[PartResult]] = in_turn(names, 1, runner.run, "curves")
    return {
        "benchmark": "growth",
        "settings": {**asdict(settings), "backbone": portable_path(settings.backbone)},
        "curves": {
            name: {"status": result.status, **result.figures} for name, [result] in results.items()
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add, given = parser.add_argument, GrowthSettings()
    add("--curves", nargs="+", choices=list(CURVES), default=list(CURVES), metavar="CURVE",
        help="(default: all)")  # fmt: skip
    add("--backbone", default=given.backbone, help="smollm2, a Hugging Face id or a folder")
    add("--point-seconds", type=float, default=given.point_seconds,
        help="sizes double until one takes so long (default: %(default)s)")  # fmt: skip
    add("--points", type=int, default=given.points, help="most sizes (default: %(default)s)")
    add("--repeats", type=int, default=given.repeats,
        help="runs of a size, of which the least counts (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, default=given.threads, help="(default: %(default)s)")
    add("--limit-seconds", type=float, default=3600.0, help="for all curves (default: 3600)")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if min(options.points, options.repeats, options.threads) < 1 or options.point_seconds <= 0:
        parser.error(
            "--points, --repeats and --threads must be at least 1, --point-seconds above 0"
        )
    settings = GrowthSettings(
        options.backbone, options.point_seconds, options.points, options.repeats, options.threads
    )
    report = compare(settings, options.curves, options.limit_seconds)
    print_table("Growth", COLUMNS, rows(report["curves"]))
    emit_json(report)


if __name__ == "__main__":
    main()
