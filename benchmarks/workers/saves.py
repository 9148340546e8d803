"""A training that saves in one of the ways, with the times of its steps and saves."""

import argparse
import tempfile
import time
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, TrainerCallback

from benchmarks.harness.processes import ROOT
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from training.loop.schedule import Clock
from training.loop.trainer import ComponentTrainer
from training.recipe.collator import Collator
from training.recipe.samples import SampleSet, TrainingSample
from training.recipe.settings import T2TSettings, load_config
from training.run.arguments import training_arguments

CONFIG = ROOT / "configs" / "t2t_smollm2.yaml"
VOCABULARY = 512


class StepTimes(TrainerCallback):
    """Seconds of each step, and of each save from the end of its step to when training goes on."""

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


def measure(options: argparse.Namespace, way: str) -> dict[str, Any]:
    """Train so many steps; the times of steps (but the first, which warms up), saves and run."""
    times = StepTimes()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        trainer = _trainer(options, folder, way)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(times)
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
    return {"steps": times.steps[1:], "saves": times.saves, "seconds": seconds}


def _trainer(options: argparse.Namespace, folder: str, way: str) -> ComponentTrainer:
    given = [f"output_dir={folder}", "data.train=none", f"train.max_steps={options.steps}"]
    given += [f"train.save_steps={options.every}", "train.batch_size=4", "train.tensorboard=false"]
    given += [f"train.background_saves={str(way == 'background').lower()}"]
    settings = load_config(T2TSettings, CONFIG, [*given, "train.gradient_accumulation_steps=1"])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=options.width, intermediate_size=3 * options.width,
        num_hidden_layers=options.layers, num_attention_heads=8, num_key_value_heads=8,
    )  # fmt: skip
    adapter = TextToTriplesConfig("random", lora_rank=options.rank)
    module = TextToTriples.from_config(adapter, LlamaForCausalLM(config)).train()
    random = np.random.default_rng(0)
    samples = [
        TrainingSample(str(i), random.integers(0, VOCABULARY, 128, dtype=np.int32), 64)
        for i in range(64)
    ]
    data: SampleSet[None] = SampleSet([None] * len(samples), samples, [])
    args = training_arguments(settings)
    if way == "none":
        args.save_strategy = "no"
    return ComponentTrainer(
        module, args, data, Collator(0), data.lengths, settings.train, dict, Clock(0.0)
    )
