"""Tokens a second of the training step: one process beside DDP, FSDP2, ZeRO-2 and ZeRO-3.

    benchmarks/processes.py
    benchmarks/processes.py --config configs/t2t_smollm2.yaml data.train=FILE [key=value ...]

On CPUs (gloo), one thread a process, every form in processes of its own, one form at a time, round
after round. One process is measured with one thread and, like for like, with as many threads as the
other forms have processes. A step holds the same samples in every form, and the losses must be
those of one process. Without --config a random model is trained. The last line of the output is one
JSON object.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.forms import FORMS, ONE, ONE_THREADED, Plan, form_figures, run_form
from benchmarks.harness.processes import ROOT, benchmark_parser, in_turn
from common.commands import one_line_errors
from common.tables import emit_json, print_table

RECIPE = ROOT / "configs" / "t2t_tiny.yaml"
COLUMNS = ("form", "tokens/s", "to one process", "on the same cores", "median s", "peak GiB",
           "loss differs by", "")  # fmt: skip


def compare(forms: Sequence[str], plan: Plan, rounds: int, folder: Path) -> dict[str, Any]:
    """Run everyone in turn, and set each beside one process."""
    results = in_turn(forms, rounds, lambda form: run_form(form, plan, folder))
    one = results.get(ONE, [])
    figures = {form: form_figures(runs, one, plan.warm_up) for form, runs in results.items()}
    for name, form in (
        ("ratio_to_one_process", ONE),
        ("ratio_to_one_process_all_threads", ONE_THREADED),
    ):
        reference = figures.get(form, {}).get("tokens_per_second")
        for measured in figures.values():
            if reference and measured["status"] == "ok":
                measured[name] = measured["tokens_per_second"] / reference
    return {
        "benchmark": "processes",
        "config": plan.config.name,
        "overrides": [text for text in plan.overrides if not text.startswith(("data.", "model.b"))],
        "batch_size": plan.batch_size,
        "processes": plan.processes,
        "threads_a_process": 1,
        "rounds": rounds,
        "warm_up_steps": plan.warm_up,
        "forms": figures,
    }


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    forms = [ONE, ONE_THREADED, *FORMS]
    add("--config", type=Path, help="recipe; without one a random model is trained")
    add("--forms", nargs="+", choices=forms, default=forms, help="measure these (default: all)")
    add("--processes", type=int, default=2, help="of every form but one process (default: 2)")
    add("--batch-size", type=int, default=8, help="samples a step of all (default: 8)")
    add("--steps", type=int, default=12, help="steps of a run (default: 12)")
    add("--warm-up", type=int, default=2, help="of them, not counted (default: 2)")
    add("--rounds", type=int, default=1, help="every form in turn, so often (default: 1)")
    add("--width", type=int, default=256, help="of the random model (default: 256)")
    add("--layers", type=int, default=4, help="of the random model (default: 4)")
    add("--seed", type=int, default=0, help="of the random model and samples (default: 0)")
    add("--limit-seconds", type=float, default=1200.0, help="for one run (default: 1200)")
    add("overrides", nargs="*", metavar="key=value", help="of the recipe, as data.train=FILE")
    return parser


def _plan(options: argparse.Namespace, folder: Path) -> Plan:
    overrides = [
        *("train.gradient_accumulation_steps=1", "train.tensorboard=false"),
        *(f"train.max_steps={options.steps}", "train.logging_steps=1"),
    ]
    if options.config is None:
        # Here, as torch is imported only where it is needed.
        from benchmarks.harness.forms import write_model, write_samples

        write_model(folder / "model", options.width, options.layers, options.seed)
        write_samples(folder / "samples.jsonl", 4 * options.batch_size, options.seed)
        overrides += [f"model.backbone={folder / 'model'}", "model.max_output_tokens=256"]
        overrides += [f"data.train={folder / 'samples.jsonl'}"]
    # Dropout draws other numbers in every process.
    overrides += ["model.lora.dropout=0", *options.overrides]
    return Plan(
        options.config or RECIPE,
        overrides,
        options.batch_size,
        options.processes,
        options.warm_up,
        options.limit_seconds,
    )


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if options.processes < 2 or options.batch_size % options.processes:
        parser.error("--batch-size must be a multiple of --processes, which are at least 2")
    if options.rounds < 1 or not 0 <= options.warm_up < options.steps:
        parser.error("--rounds must be at least 1, and --warm-up less than --steps")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        report = compare(options.forms, _plan(options, folder), options.rounds, folder)
    keys = ("tokens_per_second", "ratio_to_one_process", "ratio_to_one_process_all_threads",
            "median_step_seconds", "peak_rss_gib")  # fmt: skip
    rows = [
        [name, *(form.get(key) for key in (*keys, "max_loss_difference")), form["status"]]
        for name, form in report["forms"].items()
    ]
    print_table("Training steps", COLUMNS, rows)
    emit_json(report)


if __name__ == "__main__":
    main()
