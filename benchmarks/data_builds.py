"""Records a second and peak memory of each stage of a data build, without any model.

    benchmarks/data_builds.py --records 20000
    benchmarks/data_builds.py --records 1000000 --kinds triples --stages build

Synthetic sources; every stage in a process of its own, one after the other. The last line of the
output is one JSON object.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.harness.processes import benchmark_parser, run_process
from benchmarks.workers.data_stages import KINDS, STAGES, prepare
from common.commands import one_line_errors
from common.tables import emit_json, print_table

_STAGES = Path(__file__).resolve().parent / "workers" / "data_stages.py"
_NEEDS = {
    "check": ("label",),
    "write": ("label",),
    "merge": ("shard_1", "shard_2"),
    "parquet": ("build",),
    "read_parquet": ("build", "parquet"),
}
_COLUMNS = ("records", "seconds", "cpu_seconds", "records_per_second", "records_per_cpu_second",
            "peak_mib")  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--records", type=int, default=20_000, help="about so many made (default: 20000)")
    add(
        "--kinds",
        nargs="+",
        choices=KINDS,
        default=KINDS,
        help="text-to-triples, plans and answers",
    )
    add("--stages", nargs="+", choices=STAGES, default=STAGES, help="(default: all)")
    add("--dir", type=Path, help="folder to work in, kept; its disk is used (default: a temporary)")
    return parser


def with_needed(stages: Sequence[str]) -> list[str]:
    """Return the stages, and those whose outputs they read, in their order."""
    wanted = {*stages, *(need for stage in stages for need in _NEEDS.get(stage, ()))}
    return [stage for stage in STAGES if stage in wanted]


def run_stage(folder: Path, kind: str, stage: str) -> dict[str, Any]:
    """Run one stage in a process of its own. Raises RuntimeError when it fails."""
    command = [sys.executable, str(_STAGES), str(folder), kind, stage]
    done = run_process(command, os.environ)
    if not done.ok:
        raise RuntimeError(f"{kind}, {stage}: {done.status}")
    return done.figures


def measure(folder: Path, kinds: Sequence[str], stages: Sequence[str], records: int) -> Any:
    """Return the figures by kind and stage."""
    figures: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        own = folder / kind
        own.mkdir(parents=True, exist_ok=True)
        prepare(own, kind, records)
        bar = tqdm(with_needed(stages), desc=kind, unit="stage")
        figures[kind] = {stage: run_stage(own, kind, stage) for stage in bar}
    return figures


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.dir or Path(temporary)
        figures = measure(folder, options.kinds, options.stages, options.records)
    rows = [
        [kind, stage, *(row[name] for name in _COLUMNS)]
        for kind, stages in figures.items()
        for stage, row in stages.items()
    ]
    print_table("Stages of a data build", ["kind", "stage", *_COLUMNS], rows)
    emit_json({"benchmark": "data_builds", "records": options.records, "stages": figures})


if __name__ == "__main__":
    main()
