"""One process of a measured training: the recipe's own trainer, its steps timed.

    python -m benchmarks.workers.form --out OUT.json --config RECIPE [key=value ...]

The main process writes OUT.json. Started alone or by torchrun.
"""

import importlib
import json
import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback

from benchmarks.harness.processes import peak_bytes
from common.commands import command_parser
from training.loop.schedule import Clock
from training.recipe.agreement import together
from training.recipe.settings import RasSettings, T2TSettings, TriRagSettings, load_config
from training.run.arguments import check_launch, training_arguments
from training.run.prepare import Prepared, prepare
from training.run.runner import trainer_of

SETTINGS: dict[str, type[T2TSettings]] = {
    "t2t": T2TSettings,
    "tri_rag": TriRagSettings,
    "ras": RasSettings,
}


class StepTimes(TrainerCallback):
    """Seconds of each step from its first forward pass on, its loss, and input tokens of all."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.tokens: list[int] = []
        self._started = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step's batches are there."""
        self._started = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer has stepped."""
        self.seconds.append(time.perf_counter() - self._started)
        self.tokens.append(int(state.num_input_tokens_seen))


def component_of(config: Path) -> str:
    """Return the training that a recipe is for, from its file's name.

    Raises:
        ValueError: it is for none of the three.
    """
    for name in SETTINGS:
        if config.stem.startswith(f"{name}_"):
            return name
    raise ValueError(f"{config}: name it after its training, as t2t_NAME, tri_rag_NAME, ras_NAME")


def measure(config: Path, overrides: list[str]) -> dict[str, Any] | None:
    """Train and return the figures of all processes; None on any but the main one."""
    component = component_of(config)
    settings = load_config(SETTINGS[component], config, overrides)
    args = training_arguments(settings)
    args.save_strategy = "no"
    recipe = importlib.import_module(f"training.train_{component}").RECIPE

    def start() -> Prepared:
        torch.manual_seed(settings.train.seed)
        return prepare(recipe, settings)

    prepared = together(start)
    trainer = trainer_of(replace(prepared, validate=None), args, Clock(0.0))
    check_launch(args, trainer.accelerator.distributed_type, settings.train.num_processes)
    # Preparing FSDP on CPUs makes accelerate forget its kind.
    kind = trainer.accelerator.distributed_type.value
    times = StepTimes()
    trainer.add_callback(times)
    trainer.train()
    peak = peak_bytes()
    peaks = gather_object([peak]) if args.world_size > 1 else [peak]
    if not args.should_save:
        return None
    return {
        "kind": kind,
        "processes": args.world_size,
        "seconds": times.seconds,
        "tokens": [b - a for a, b in zip([0, *times.tokens], times.tokens, strict=False)],
        "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        "peak_rss_bytes": max(peaks),
    }


def main() -> None:
    """Run the command."""
    logging.basicConfig(level=logging.WARNING)
    parser = command_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    figures = measure(arguments.config, arguments.overrides)
    if figures is not None:
        arguments.out.write_text(json.dumps(figures), encoding="utf-8")
    together(lambda: None)
    # gloo's threads outlive the group that is closed, and now and then abort the interpreter's end.
    os._exit(0)


if __name__ == "__main__":
    main()
