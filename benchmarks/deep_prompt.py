"""Compare a training step of layer-wise soft prompts with its literal form and with other prompts.

Same backbone, texts and loss for all; everyone in a process of its own, one at a time, round after
round. Ours is first held against the literal form: loss and gradients must agree. The last line of
the output is one JSON object.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.processes import (
    GIB,
    PartResult,
    PartRunner,
    available_threads,
    benchmark_parser,
    figure_ratio,
    in_turn,
)
from benchmarks.workers.prompt_contestants import CONTESTANTS, PromptSettings
from common.commands import one_line_errors
from common.tables import emit_json, print_table

WORKER = "benchmarks.workers.prompt"
TOLERANCE = 1e-4
RATIOS = {
    "ratio_vs_frozen": ("frozen", "ours"),
    "ratio_vs_literal": ("literal", "ours"),
    "ratio_vs_peft": ("peft_prefix", "ours"),
    "ratio_vs_input_prompt": ("input_prompt", "ours"),
    "ratio_vs_literal_checkpointing": ("literal_checkpointing", "ours_checkpointing"),
}


def compare(
    settings: PromptSettings, names: Sequence[str], rounds: int, limit_seconds: float
) -> dict[str, Any]:
    """Check parity, then measure everyone, round after round.

    Raises RuntimeError where ours is not the literal form.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        settings.write(folder)
        runner = PartRunner(folder, settings.threads, limit_seconds, WORKER)
        parity = runner.run("parity")
        if not parity.ok or max(parity.figures.values()) > TOLERANCE:
            raise RuntimeError(f"ours is not the literal form: {parity.status} {parity.figures}")
        results = in_turn(names, rounds, runner.run, f"n = {settings.num_tokens}")
    figures = {name: contestant_figures(runs) for name, runs in results.items()}
    return {**ratios(figures), "parity": parity.figures, "contestants": figures}


def contestant_figures(results: Sequence[PartResult]) -> dict[str, Any]:
    """Return the median seconds of a step, of the fastest and slowest round, and peak memory."""
    measured = [result.figures for result in results if result.ok]
    if not measured:
        return {"status": results[0].status}
    return {
        "status": "ok",
        "median_step_seconds": median(s for figures in measured for s in figures["seconds"]),
        "round_seconds_min": min(median(figures["seconds"]) for figures in measured),
        "round_seconds_max": max(median(figures["seconds"]) for figures in measured),
        "peak_rss_gib": max(figures["peak_rss_bytes"] for figures in measured) / GIB,
        "trainable_parameters": measured[0]["trainable_parameters"],
        "loss": measured[0]["loss"],
    }


def ratios(figures: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """Return times (above 1: ours is faster) and memory over ours, None where one is missing."""
    times = {
        name: figure_ratio(figures, *pair, "median_step_seconds") for name, pair in RATIOS.items()
    }
    memory = {
        name.replace("ratio", "memory_ratio"): figure_ratio(figures, *pair, "peak_rss_gib")
        for name, pair in RATIOS.items()
    }
    return {**times, **memory}


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--backbone", default="smollm2", help="smollm2, a Hugging Face id or a folder")
    add("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    add("--num-tokens", type=int, nargs="+", default=[32, 64], help="n (default: 32 64)")
    add("--batch-size", type=int, default=4, help="texts a step (default: 4)")
    add("--length", type=int, default=256, help="tokens of a text (default: 256)")
    add("--steps", type=int, default=3, help="steps measured a round (default: 3)")
    add("--rounds", type=int, default=3, help="everyone in turn, so many times (default: 3)")
    add("--threads", type=int, default=available_threads(), help="default: all cores")
    add("--limit-seconds", type=float, default=1500.0, help="for each n (default: 1500)")
    add("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    return parser


@one_line_errors(RuntimeError)
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    settings = PromptSettings(
        options.backbone, options.dtype, options.num_tokens[0], options.batch_size,
        options.length, options.steps, options.threads,
    )  # fmt: skip
    report: dict[str, Any] = {"benchmark": "deep_prompt", "settings": asdict(settings)}
    for num_tokens in options.num_tokens:
        found = compare(
            replace(settings, num_tokens=num_tokens),
            options.only,
            options.rounds,
            options.limit_seconds,
        )
        report[f"n={num_tokens}"] = found
        rows = [
            [CONTESTANTS[name], f.get("median_step_seconds"), f.get("peak_rss_gib"), f["status"]]
            for name, f in found["contestants"].items()
        ]
        print_table(f"Training steps, n = {num_tokens}", ("step", "median s", "peak GiB", ""), rows)
        shown = [[name, value] for name, value in found.items() if "ratio" in name]
        print_table(f"Others over ours, n = {num_tokens}", ("figure", "value"), shown)
    emit_json(report)


if __name__ == "__main__":
    main()
