"""Measure how long a training step stands still for a checkpoint, written beside it or in it.

A random decoder with a trained part as large as SmolLM2's LoRA trains on random tokens through the
project's own trainer, once per way of writing. The last line of the output is one JSON object.
"""

import argparse
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# A script run by path finds its packages even where the project is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, TrainerCallback

from evaluation.report import emit_json, print_table
from models.text_to_triples import TextToTriplesConfig, build_text_to_triples
from training.arguments import training_arguments
from training.checkpoint_writer import CheckpointWriter
from training.collators import Collator
from training.config import load_config
from training.samples import SampleSet, TrainingSample
from training.schedule import Clock
from training.settings import T2TSettings
from training.trainer import ComponentTrainer

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "t2t_smollm2.yaml"
VOCABULARY = 512


class InTheStep(CheckpointWriter):
    """Waits for each write, as if there were no thread."""

    def submit(self, write: Any) -> None:
        """Write at once."""
        super().submit(write)
        self.wait()


class StepTimes(TrainerCallback):
    """Seconds from the end of each step's work to the next, with what was saved in between."""

    def __init__(self) -> None:
        self.saves: list[float] = []
        self.steps: list[float] = []
        self._started = 0.0

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        """A step begins."""
        self._started = time.perf_counter()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Its optimizer has stepped."""
        self.steps.append(time.perf_counter() - self._started)
        self._started = time.perf_counter()

    def on_save(self, *args: Any, **kwargs: Any) -> None:
        """The training may go on after a save."""
        self.saves.append(time.perf_counter() - self._started)


def measure(options: argparse.Namespace, in_background: bool) -> dict[str, Any]:
    """Train so many steps with a save every few; medians in seconds."""
    times = StepTimes()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        trainer = _trainer(options, folder)
        if not in_background:
            trainer.writer = InTheStep()
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(times)
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
    return {
        "step_seconds": statistics.median(times.steps),
        "stall_seconds": statistics.median(times.saves),
        "longest_stall_seconds": max(times.saves),
        "saves": len(times.saves),
        "seconds": seconds,
    }


def _trainer(options: argparse.Namespace, folder: str) -> ComponentTrainer:
    given = [f"output_dir={folder}", "data.train=none", f"train.max_steps={options.steps}"]
    given += [f"train.save_steps={options.every}", "train.batch_size=4", "train.tensorboard=false"]
    settings = load_config(T2TSettings, CONFIG, [*given, "train.gradient_accumulation_steps=1"])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=options.width, intermediate_size=3 * options.width,
        num_hidden_layers=options.layers, num_attention_heads=8, num_key_value_heads=8,
    )  # fmt: skip
    adapter = TextToTriplesConfig("random", lora_rank=options.rank)
    module = build_text_to_triples(adapter, model=LlamaForCausalLM(config)).train()
    random = np.random.default_rng(0)
    samples = [
        TrainingSample(str(i), random.integers(0, VOCABULARY, 128, dtype=np.int32), 64)
        for i in range(64)
    ]
    data: SampleSet[None] = SampleSet([None] * len(samples), samples, [])
    args = training_arguments(settings)
    return ComponentTrainer(
        module, args, data, Collator(0), data.lengths, settings.train, dict, Clock(0.0)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--steps", type=int, default=24, help="optimizer steps of each run (default: 24)")
    add("--every", type=int, default=4, help="steps between saves (default: 4)")
    add("--interval", type=int, default=60, help="the recipe's train.save_steps (default: 60)")
    add("--width", type=int, default=512, help="of the decoder (default: 512)")
    add("--layers", type=int, default=8, help="of the decoder (default: 8)")
    add("--rank", type=int, default=56, help="of the adapter (default: 56, 4.8 M parameters)")
    add("--folder", type=Path, help="write checkpoints under this folder (default: temporary)")
    add("--json", action="store_true", help="accepted as everywhere; the JSON is always printed")
    return parser


def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    logging.getLogger("accelerate").setLevel(logging.WARNING)
    results = {name: measure(options, name == "background") for name in ("in_step", "background")}
    for figures in results.values():
        a_step = options.interval * figures["step_seconds"]
        figures["stalled_share_at_interval"] = figures["stall_seconds"] / a_step
    names = ("step_seconds", "stall_seconds", "longest_stall_seconds", "stalled_share_at_interval")
    rows = [[name, *(figures[key] for key in names)] for name, figures in results.items()]
    print_table("Stall of a step by a save", ["written", *names], rows)
    shown = {key: getattr(options, key) for key in ("steps", "every", "width", "layers", "rank")}
    emit_json({"benchmark": "save_stall", "interval": options.interval, **shown, **results})


if __name__ == "__main__":
    main()
