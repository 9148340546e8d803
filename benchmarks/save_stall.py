"""Measure what checkpoints cost a training: written in the step, by a thread beside it, or none.

A random decoder with a trained part as large as SmolLM2's LoRA trains on random tokens through the
project's own trainer, the three ways in turn, round after round. For each: how long a save stops
the training, how long a step takes between saves, and how long the whole run takes, the wait for
the last write included. The recipes' default is chosen by the whole run: the thread, if that is
faster in every round, else the step. The last line of the output is one JSON object.
"""

import argparse
import logging
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.harness.processes import benchmark_parser
from common.commands import one_line_errors
from common.tables import emit_json, print_table
from training.recipe.settings import T2TSettings, load_config

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "t2t_smollm2.yaml"
REQUIRED = ("output_dir=none", "data.train=none")
WAYS = ("none", "in_step", "background")


def figures_of(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one way's figures: medians over all steps and saves, and over the rounds' whole
    runs.
    """
    steps = [seconds for found in rounds for seconds in found["steps"]]
    saves = [seconds for found in rounds for seconds in found["saves"]]
    runs = [found["seconds"] for found in rounds]
    return {
        "saves": len(rounds[0]["saves"]),
        "stall_seconds": statistics.median(saves) if saves else None,
        "longest_stall_seconds": max(saves, default=None),
        "step_seconds": statistics.median(steps),
        "mean_step_seconds": statistics.mean(steps),
        "seconds": statistics.median(runs),
        "seconds_min": min(runs),
        "seconds_max": max(runs),
        "seconds_by_round": runs,
    }


def compare(ways: dict[str, dict[str, Any]], interval: int) -> dict[str, Any]:
    """Return the thread's whole runs over the step's, and what a save costs of a run at an
    interval.

    A ratio below 1 says that the thread is faster. `save_cost_seconds` is what a run takes longer
    than one without saves, by save: stall, slower steps and the last wait together.
    """
    none, in_step, background = (ways[way] for way in WAYS)

    def over(one: dict[str, Any], other: dict[str, Any]) -> list[float]:
        pairs = zip(one["seconds_by_round"], other["seconds_by_round"], strict=True)
        return [mine / theirs for mine, theirs in pairs]

    ratios = over(background, in_step)
    figures: dict[str, Any] = {
        "ratio_background_vs_in_step": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "chosen": "background" if max(ratios) < 1 else "in_step",
    }
    for name, own in (("in_step", in_step), ("background", background)):
        pairs = zip(own["seconds_by_round"], none["seconds_by_round"], strict=True)
        cost = statistics.median(mine - theirs for mine, theirs in pairs) / own["saves"]
        figures[f"save_cost_seconds_{name}"] = cost
        figures[f"save_cost_share_at_interval_{name}"] = cost / (interval * none["step_seconds"])
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    recipe = load_config(T2TSettings, CONFIG, list(REQUIRED)).train.save_steps
    add = parser.add_argument
    add("--steps", type=int, default=2 * recipe, help="of each run (default: %(default)s)")
    add("--every", type=int, default=recipe, help="steps between saves (default: the recipe's)")
    add("--rounds", type=int, default=3, help="all ways in turn, so many times (default: 3)")
    add("--width", type=int, default=512, help="of the decoder (default: 512)")
    add("--layers", type=int, default=8, help="of the decoder (default: 8)")
    add("--rank", type=int, default=56, help="of the adapter (default: 56, 4.8 M parameters)")
    add("--folder", type=Path, help="write checkpoints under this folder (default: temporary)")
    parser.set_defaults(interval=recipe)
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if min(options.every, options.rounds) < 1 or options.steps < max(2, options.every):
        parser.error("--every and --rounds must be at least 1, --steps at least 2 and --every")
    # With transformers' Trainer, which takes seconds to import and --help does not need.
    from benchmarks.workers.saves import measure

    logging.getLogger("accelerate").setLevel(logging.WARNING)
    # The first training of a process also pays for what libraries load late.
    measure(argparse.Namespace(**{**vars(options), "steps": 2, "every": 1}), "background")
    rounds: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for way in tqdm([*WAYS] * options.rounds, desc="measuring", unit=" runs"):
        rounds[way].append(measure(options, way))
    ways = {way: figures_of(found) for way, found in rounds.items()}
    compared = compare(ways, options.interval)
    names = ("saves", "stall_seconds", "longest_stall_seconds", "step_seconds",
             "mean_step_seconds", "seconds", "seconds_min", "seconds_max")  # fmt: skip
    rows = [[way, *(figures[name] for name in names)] for way, figures in ways.items()]
    print_table(f"A save every {options.every} steps", ["written", *names], rows)
    print_table("The whole run", ["figure", "value"], [list(item) for item in compared.items()])
    sizes = {name: getattr(options, name) for name in
             ("interval", "steps", "every", "rounds", "width", "layers", "rank")}  # fmt: skip
    about = {**sizes, "threads": torch.get_num_threads()}
    emit_json({"benchmark": "save_stall", **about, **compared, **ways})


if __name__ == "__main__":
    main()
