"""Compare our training step with PyG's GRetriever, the published per-sample loop and a bare LM.

Like for like first, with the peers' batches and dtype, then with our batches and bfloat16.

Same backbone, adapter (LoRA of rank 8 on q and v), graph layers and samples for all; everyone in a
process of its own, one at a time. Our step is first held against the per-sample loop: logits, loss
and gradients must agree in float32. The last line of the output is one JSON object.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

from benchmarks.harness.figures import (
    contestant_figures,
    ratio_rows,
    ratio_spread,
    ratios,
    table_rows,
)
from benchmarks.harness.processes import (
    PartRunner,
    available_threads,
    benchmark_parser,
    in_turn,
)
from benchmarks.harness.settings import CONTESTANTS, LengthDistribution, StepSettings
from common.commands import one_line_errors
from common.errors import UserError
from common.tables import emit_json, print_table

WORKER = "benchmarks.workers.step"
COLUMNS = ("step", "weights", "batches", "samples/s", "min", "max", "median s", "peak GiB",
           "real tokens", "")  # fmt: skip
COMPARED = ("ours over the peer's", "ratio", "min", "max", "batches and weights")


class ComparisonError(UserError, RuntimeError):
    """The comparison cannot be made: samples could not be prepared, or parity does not hold."""


def compare(
    settings: StepSettings, names: Sequence[str], rounds: int, limit_seconds: float
) -> dict[str, Any]:
    """Prepare the samples, check parity, then measure everyone, round after round.

    Raises ComparisonError before anything is timed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        settings.write(Path(temporary))
        runner = PartRunner(
            Path(temporary), settings.threads, limit_seconds, WORKER, settings.device != "cpu"
        )
        workload = _required(runner, "prepare")["workload"]
        parity = _required(runner, "parity")
        results = in_turn(names, rounds, runner.run)
    figures = {name: contestant_figures(runs, settings) for name, runs in results.items()}
    return {
        "benchmark": "train_step",
        **ratios(figures),
        "ratio_spread": ratio_spread(figures),
        "parity_max_abs_diff": parity["max_abs_diff"],
        "parity": parity,
        "workload": workload,
        "settings": asdict(settings),
        "rounds": rounds,
        "contestants": figures,
    }


def _required(runner: PartRunner, part: str) -> dict[str, Any]:
    result = runner.run(part)
    if not result.ok:
        raise ComparisonError(f"{part}: {result.status}")
    return result.figures


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--backbone", default="smollm2", help="smollm2, a Hugging Face id or a folder")
    add("--encoder", default="minilm", help="sentence encoder of nodes and edges")
    add("--batches", type=int, default=4, help="steps measured (default: 4)")
    add("--batch-size", type=int, default=4, help="samples a step (default: 4)")
    add("--threads", type=int, default=available_threads(), help="default: all cores")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="that all train on (default: cpu)")
    add("--rounds", type=int, default=3, help="everyone in turn, so many times (default: 3)")
    add("--limit-seconds", type=float, default=2400.0, help="time for all together (default: 2400)")
    add("--min-tokens", type=int, default=120, help="shortest prompt (default: 120)")
    add("--max-tokens", type=int, default=900, help="longest prompt (default: 900)")
    add(
        "--lengths",
        choices=get_args(LengthDistribution),
        default="log-uniform",
        help="spread of the prompts' lengths (default: log-uniform)",
    )
    add("--graph-width", type=int, default=1024, help="of the graph layers (default: 1024)")
    add("--graph-layers", type=int, default=3, help="graph layers (default: 3)")
    add("--graph-heads", type=int, default=8, help="attention heads of a layer (default: 8)")
    add("--projector-width", type=int, default=2048, help="of our projector (default: 2048)")
    add("--seed", type=int, default=0, help="of samples, order and weights (default: 0)")
    add(
        "--only",
        nargs="+",
        choices=list(CONTESTANTS),
        default=list(CONTESTANTS),
        help="measure these alone (default: all)",
    )
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if min(options.batches, options.batch_size, options.rounds, options.threads) < 1:
        parser.error("--batches, --batch-size, --rounds and --threads must be at least 1")
    if not 1 <= options.min_tokens <= options.max_tokens:
        parser.error("--min-tokens must be at least 1 and at most --max-tokens")
    settings = StepSettings(**{f.name: getattr(options, f.name) for f in fields(StepSettings)})
    report = compare(settings, options.only, options.rounds, options.limit_seconds)
    print_table("Training steps", COLUMNS, table_rows(report["contestants"]))
    print_table("Compared", COMPARED, ratio_rows(report, report["ratio_spread"]))
    parity = [[f"{value:.2e}" for value in report["parity"].values()]]
    print_table("Greatest difference to the per-sample loop", list(report["parity"]), parity)
    emit_json(report)


if __name__ == "__main__":
    main()
