"""Where the time of a training step goes, part by part, in the recipe's own trainer on a CPU.

    benchmarks/profile_step.py --recipe t2t --lengths long
    benchmarks/profile_step.py --trace step.json -- train.batch_size=2

Each batch is stepped over without and with a profiler, in turn: the first says how long a step
takes, the second where, and the difference what the profiler costs. Rates of matrix products stand
beside those of plain products of the same shapes, timed afterwards. The last line of the output is
one JSON object.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from benchmarks.harness.forms import write_model
from benchmarks.harness.matrix_rate import PlainProducts, gflops
from benchmarks.harness.processes import ROOT, available_threads, benchmark_parser
from benchmarks.harness.step_parts import PARTS, PHASES, Product, StepProfile
from benchmarks.harness.step_samples import resized, target_lengths, write_samples
from common.commands import one_line_errors
from common.errors import UserError
from common.tables import emit_json, print_table
from models.files.backbone import resolve_dtype
from training.recipe.recipe import Recipe
from training.recipe.settings import Dtype, T2TSettings, load_config
from training.train_ras import RECIPE as RAS
from training.train_t2t import RECIPE as T2T
from training.train_tri_rag import RECIPE as TRI_RAG

if TYPE_CHECKING:
    from benchmarks.harness.profiled_steps import StepsTaken
    from training.run.prepare import Prepared

RECIPES: dict[str, Recipe[Any, Any]] = {"ras": RAS, "t2t": T2T, "tri_rag": TRI_RAG}
# Widths of --tiny's random backbone.
TINY = {"width": 64, "layers": 2}
COLUMNS = ("part", *(f"{phase}, s" for phase in PHASES), "sum, s", "share", "GFLOP/s",
           "of the machine's", "plain products, s")  # fmt: skip


class ProfileError(UserError, RuntimeError):
    """A profile that cannot be made, or whose parts are not the step."""


def report_of(taken: StepsTaken, dtype: torch.dtype, tolerance: float) -> dict[str, Any]:
    """Return the figures of the steps: means of a step over the profiled ones."""
    plain, profiled = (sum(taken.seconds[kind]) for kind in ("plain", "profiled"))
    count = len(taken.profiles)
    products = PlainProducts(dtype)
    parts = {name: _part(name, taken.profiles, products) for name in PARTS}
    machine = parts["backbone_products"]
    rate = machine["flops"] / machine["plain_seconds"] / 1e9 if machine["flops"] else None
    whole = sum(part["seconds"] for part in parts.values())
    for part in parts.values():
        part["share"] = part["seconds"] / whole
        achieved = part["gflops"]
        part["share_of_matrix_rate"] = achieved / rate if rate and achieved else None
    differences = [
        abs(one.sum_of_parts - seconds) / seconds
        for one, seconds in zip(taken.profiles, taken.seconds["profiled"], strict=True)
    ]
    return {
        "step_seconds": plain / count,
        "processor_seconds_a_step": taken.processor_seconds / count,
        "profiled_step_seconds": profiled / count,
        "profiler_overhead": profiled / plain - 1,
        "sum_of_parts_seconds": whole,
        "sum_of_parts_differs_by": max(differences),
        "tolerance": tolerance,
        "padded_tokens_a_step": sum(taken.tokens) / count,
        "padded_tokens_per_second": sum(taken.tokens) / plain,
        "matrix_gflops": rate,
        "parts": parts,
    }


def _part(name: str, profiles: Sequence[StepProfile], plain: PlainProducts) -> dict[str, Any]:
    """Return a part's seconds a step, and what is known of its products."""
    count = len(profiles)
    phases = {p: sum(one.seconds[name, p] for one in profiles) / count for p in PHASES}
    computed: list[Product] = []
    took = alone = 0.0
    for one in profiles:
        for (phase, product), seconds in one.products[name].items():
            computed += [product] * len(seconds)
            took += sum(seconds)
            alone += plain.seconds(product, phase) * len(seconds)
    return {
        **{f"{phase}_seconds": value for phase, value in phases.items()},
        "seconds": sum(phases.values()),
        "flops": sum(product.flops for product in computed) / count,
        "product_seconds": took / count,
        "plain_seconds": alone / count,
        "gflops": gflops(computed, took),
    }


def table_rows(report: dict[str, Any]) -> list[list[Any]]:
    """Return a row a part, for people; parts that take no time are left out."""
    return [
        [
            PARTS[name],
            *(part[f"{phase}_seconds"] for phase in PHASES),
            part["seconds"],
            f"{100 * part['share']:.1f} %",
            part["gflops"] and round(part["gflops"], 1),
            part["share_of_matrix_rate"] and f"{100 * part['share_of_matrix_rate']:.0f} %",
            part["plain_seconds"] or None,
        ]
        for name, part in report["parts"].items()
        if part["seconds"]
    ]


def prepared_recipe(options: argparse.Namespace, folder: Path) -> Prepared:
    """Return the recipe of the command line with its samples and module, for the CPU.

    Raises what reading a recipe and its data raises; LengthError for lengths it does not take.
    """
    recipe = RECIPES[options.recipe]
    overrides = [f"output_dir={folder / 'run'}", "train.tensorboard=false", "train.num_workers=0"]
    overrides += [f"data.train={options.data or folder / 'samples.jsonl'}"]
    if options.tiny:
        write_model(folder / "model", TINY["width"], TINY["layers"], options.seed)
        overrides += [f"model.backbone={folder / 'model'}"]
    overrides += [*options.overrides, "train.num_train_epochs=1"]
    settings: T2TSettings = load_config(recipe.settings_type, _config(options), overrides)
    settings.train.seed, settings.data.dev = options.seed, ""
    settings.model.dtype = Dtype(resolve_dtype(settings.model.dtype.value))
    train = settings.train
    count = options.steps * train.batch_size * train.gradient_accumulation_steps
    lengths = target_lengths(options.lengths, count, settings.model.max_input_tokens)
    if not options.data:
        write_samples(recipe, settings, folder / "samples.jsonl", count, options.seed)
    settings.data.skip_cut_labels = True
    torch.manual_seed(options.seed)
    # With the Trainer, which --help does not need.
    from training.run.prepare import prepare

    prepared = prepare(recipe, settings)
    samples = prepared.train.samples
    if len(samples) < count:
        raise ProfileError(
            f"{options.data or options.recipe}: {len(samples)} samples are too few for "
            f"{options.steps} steps of {count // options.steps}; lower --steps or train.batch_size"
        )
    if lengths is not None:
        samples = resized(samples[:count], lengths)
    prepared.train = replace(
        prepared.train, samples=samples, records=prepared.train.records[: len(samples)]
    )
    if train.gradient_checkpointing:
        prepared.module.gradient_checkpointing_enable()  # type: ignore[operator]
    return prepared


def _config(options: argparse.Namespace) -> Path:
    size = "tiny" if options.tiny else "smollm2"
    return options.config or ROOT / "configs" / f"{options.recipe}_{size}.yaml"


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--recipe", choices=list(RECIPES), default="ras", help="what is trained (default: ras)")
    add("--config", type=Path, help="another recipe file (default: the shipped one on SmolLM2)")
    add("--data", type=Path, help="samples, JSON Lines (default: made up, from --seed)")
    add("--lengths", default="recipe", metavar="LENGTHS",
        help="of samples: recipe (as they are), short, long, mixed or a number of tokens "
        "(default: recipe)")  # fmt: skip
    add("--steps", type=int, default=2, help="batches, each stepped over twice (default: 2)")
    add("--threads", type=int, default=available_threads(), help="default: all cores")
    add("--tolerance", type=float, default=0.02, metavar="SHARE",
        help="by which parts may differ from the step, else status 1 (default: 0.02)")  # fmt: skip
    add("--trace", type=Path, help="write the last profile for chrome://tracing or Perfetto, .json")
    add("--tiny", action="store_true", help="a random model of two layers, for tests")
    add("--seed", type=int, default=0, help="of samples, order and weights (default: 0)")
    add("overrides", nargs="*", metavar="key=value", help="of the recipe, as train.batch_size=1")
    return parser


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the whole report of a command line."""
    from benchmarks.harness.profiled_steps import take_steps

    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary:
        prepared = prepared_recipe(options, Path(temporary))
        taken = take_steps(prepared, options.steps, options.trace)
    settings, module = prepared.settings, cast(Any, prepared.module)
    dtype: torch.dtype = module.backbone.dtype
    if settings.train.autocast_bf16:
        dtype = torch.bfloat16
    return {
        "benchmark": "profile_step",
        "recipe": options.recipe,
        "config": _config(options).name,
        "lengths": options.lengths,
        "samples_a_step": settings.train.batch_size * settings.train.gradient_accumulation_steps,
        "micro_batches_a_step": settings.train.gradient_accumulation_steps,
        "dtype": str(dtype).removeprefix("torch."),
        "threads": options.threads,
        "steps": options.steps,
        "seed": options.seed,
        **report_of(taken, dtype, options.tolerance),
    }


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if min(options.steps, options.threads) < 1 or options.tolerance <= 0:
        parser.error("--steps and --threads must be at least 1, and --tolerance above 0")
    if options.trace is not None and not options.trace.parent.is_dir():
        parser.error(f"--trace {options.trace}: {options.trace.parent} is no folder; make it first")
    # Parts of the step are seconds of this processor; a GPU works on while its caller goes on.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        report = measure(options)
    except KeyboardInterrupt:
        sys.exit("error: interrupted; nothing was measured or written")
    title = f"A step of {report['recipe']}: {report['step_seconds']:.2f} s"
    print_table(title, COLUMNS, table_rows(report))
    shown = [[name, value] for name, value in report.items() if not isinstance(value, dict)]
    print_table("The profile", ("figure", "value"), shown)
    emit_json(report)
    if report["sum_of_parts_differs_by"] > options.tolerance:
        raise ProfileError("the parts do not add up to the step; raise --tolerance if that is fine")


if __name__ == "__main__":
    main()
