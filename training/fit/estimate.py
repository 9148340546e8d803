"""`--estimate` of the training scripts: what a training takes, before any weight is loaded."""

import argparse
import logging
import math
import os
from dataclasses import dataclass
from typing import Any

import torch

from common.tables import emit_json, print_table
from training.fit.memory import Launch, StateMemory, state_memory
from training.fit.sketch import Lengths, Sketch, data_lengths, recipe_lengths, sketch
from training.recipe.recipe import Recipe, SettingsT, encode_data
from training.recipe.samples import SourceT
from training.recipe.settings import ConfigError, load_config

logger = logging.getLogger(__name__)
# Keys that a recipe may leave open where nothing is trained.
OPEN_KEYS = ("output_dir", "data.train")
GIB = 2**30
# What a CUDA context and its libraries take beside the tensors, about.
RESERVE_BYTES = GIB
# Assumptions, where nothing else is said: an A100's dense bfloat16 peak, and the share of it that
# trainings reach (Chowdhery et al. 2022, App. B, report 21 to 46 %).
DEVICE_TFLOPS, MFU = 312.0, 0.35


@dataclass(frozen=True)
class Speed:
    """What a device is assumed to compute: its peak, and the share of it that is used (MFU)."""

    device_tflops: float = DEVICE_TFLOPS
    mfu: float = MFU


@dataclass(frozen=True)
class Fit:
    """The expected cost of a training on each of its processes.

    Attributes:
        activations: most that a micro-batch of the longest samples holds in forward and backward.
        reserve: beside all tensors.
        device_bytes: memory of a device.
        tokens_per_step: of an optimizer step over all processes, at the mean length.
        flops_per_step: on one process, at the mean length.
        step_seconds: at the assumed speed; sending between processes is left out.
        steps: of the whole training; None where the number of samples is not known.
    """

    launch: Launch
    processes: int
    state: StateMemory
    activations: int
    reserve: int
    device_bytes: int
    tokens_per_step: float
    flops_per_step: float
    step_seconds: float
    steps: int | None

    @property
    def total(self) -> int:
        """Bytes needed on each process."""
        return self.state.total + self.activations + self.reserve

    @property
    def fits(self) -> bool:
        """Whether a device holds that."""
        return self.total <= self.device_bytes

    @property
    def seconds(self) -> float | None:
        """Of the whole training; None where the number of samples is not known."""
        return None if self.steps is None else self.steps * self.step_seconds


def fit(sketch: Sketch, launch: Launch, processes: int, device_bytes: int, speed: Speed) -> Fit:
    """Estimate a sketched recipe for one form of launch.

    Raises:
        ValueError: one process of a form that has several, or the other way round.
    """
    if (launch is Launch.one) != (processes == 1):
        raise ValueError(
            f"--launch {launch.value} with --processes {processes}: `one` has one process, every "
            "other form two or more"
        )
    train, lengths, run = sketch.settings.train, sketch.lengths, sketch.run
    samples_a_step = train.batch_size * train.gradient_accumulation_steps * processes
    # Matrix products grow with the tokens, attention with their square.
    share = lengths.mean / (lengths.prompt + lengths.label)
    flops = run.linear_flops * share + run.attention_flops * share**2
    flops *= train.gradient_accumulation_steps
    return Fit(
        launch=launch,
        processes=processes,
        state=state_memory(sketch.parameters, launch, processes),
        activations=run.peak_bytes,
        reserve=RESERVE_BYTES,
        device_bytes=device_bytes,
        tokens_per_step=samples_a_step * lengths.mean,
        flops_per_step=flops,
        step_seconds=flops / (speed.device_tflops * 1e12 * speed.mfu),
        steps=_steps(sketch, samples_a_step),
    )


def device_memory() -> tuple[int, str]:
    """Bytes of the first GPU, or of this machine where it has none; and which it is."""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        return int(properties.total_memory), str(properties.name)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "this machine's memory"


def _steps(sketch: Sketch, samples_a_step: int) -> int | None:
    train, samples = sketch.settings.train, sketch.lengths.samples
    if train.max_steps:
        return train.max_steps
    if samples is None:
        return None
    return math.ceil(math.ceil(samples / samples_a_step) * train.num_train_epochs)


def add_fit_options(parser: argparse.ArgumentParser) -> None:
    """Add `--estimate` and what it is told."""
    group = parser.add_argument_group("estimate")
    add = group.add_argument
    add("--estimate", action="store_true", help="say what the training takes, and train nothing")
    add("--processes", type=int, default=0, help="default: train.num_processes, else one")
    add(
        "--launch", choices=[form.value for form in Launch],
        help="how they share the model (default: ddp for several)",
    )  # fmt: skip
    add("--device-memory", type=float, metavar="GIB", help="of each device (default: found here)")
    add("--samples", type=int, help="training samples, where data.train is not given")
    add(
        "--device-tflops", type=float, default=DEVICE_TFLOPS,
        help="assumed peak of a device (default: %(default)s, an A100 in bfloat16)",
    )  # fmt: skip
    add(
        "--mfu", type=float, default=MFU,
        help="assumed share of that peak that is used (default: %(default)s)",
    )  # fmt: skip


def estimate(arguments: argparse.Namespace, recipe: Recipe[SettingsT, SourceT]) -> None:
    """Print the estimate for a training script's command line.

    Raises:
        ConfigError: the recipe cannot be used, its backbone's configuration is not here, or the
            options do not fit together.
    """
    settings = load_config(recipe.settings_type, arguments.config, arguments.overrides, OPEN_KEYS)
    processes = arguments.processes or settings.train.num_processes or 1
    launch = Launch(arguments.launch or ("one" if processes == 1 else "ddp"))
    found, device = device_memory()
    if arguments.device_memory:
        found, device = int(arguments.device_memory * GIB), "given"
    if min(processes, arguments.mfu, arguments.device_tflops, found) <= 0:
        raise ConfigError("--processes, --mfu, --device-tflops and --device-memory: above 0")
    drawn = sketch(settings, recipe, _lengths(settings, recipe, arguments.samples))
    speed = Speed(arguments.device_tflops, arguments.mfu)
    try:
        result = fit(drawn, launch, processes, found, speed)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    _print(drawn, result, speed, device)
    if arguments.json:
        emit_json(as_json(drawn, result, speed, device))


def _lengths(
    settings: SettingsT, recipe: Recipe[SettingsT, SourceT], samples: int | None
) -> Lengths:
    if not settings.data.train:
        return recipe_lengths(settings, samples)
    try:
        return data_lengths(encode_data(recipe, settings, lengths_only=True).train)
    except FileNotFoundError:
        raise
    except OSError as error:
        # What transformers raises where the hub is not reached.
        problem = " ".join(str(error).split())[:100]
        logger.warning("no tokenizer here, so the recipe's lengths are used: %s", problem)
        return recipe_lengths(settings, samples)


def as_json(drawn: Sketch, result: Fit, speed: Speed, device: str) -> dict[str, Any]:
    """The estimate in bytes, tokens and seconds, with what was assumed."""
    parameters, state = drawn.parameters, result.state
    return {
        "launch": result.launch.value,
        "processes": result.processes,
        "parameters": {"all": parameters.total, "trained": parameters.trained},
        "bytes_per_process": {
            "weights": state.weights,
            "gradients": state.gradients,
            "optimizer": state.optimizer,
            "buffers": state.buffers,
            "activations": result.activations,
            "reserve": result.reserve,
            "total": result.total,
        },
        "saved_for_backward_bytes": drawn.run.saved_bytes,
        "device": device,
        "device_bytes": result.device_bytes,
        "fits": result.fits,
        "component_bytes": parameters.trained_bytes,
        "checkpoint_bytes": parameters.checkpoint_bytes,
        "base_bytes": drawn.base_bytes,
        "component_share_of_base": parameters.trained_bytes / drawn.base_bytes,
        "tokens_per_step": result.tokens_per_step,
        "flops_per_step_and_process": result.flops_per_step,
        "steps": result.steps,
        "step_seconds": result.step_seconds,
        "seconds": result.seconds,
        "assumed": {
            "device_tflops": speed.device_tflops,
            "mfu": speed.mfu,
            "lengths": drawn.lengths.source,
            "longest_prompt": drawn.lengths.prompt,
            "longest_label": drawn.lengths.label,
            "mean_tokens": drawn.lengths.mean,
            "samples": drawn.lengths.samples,
        },
    }


def _print(drawn: Sketch, result: Fit, speed: Speed, device: str) -> None:
    parameters, state, lengths = drawn.parameters, result.state, drawn.lengths
    share = parameters.trained_bytes / drawn.base_bytes
    verdict = "fits" if result.fits else "DOES NOT FIT"
    rows = [
        ["launch", f"{result.launch.value}, {result.processes} processes"],
        ["parameters", f"{parameters.total:,}, trained {parameters.trained:,}"],
        ["weights", gib(state.weights)],
        ["gradients", gib(state.gradients)],
        ["optimizer", gib(state.optimizer)],
        ["buffers between processes", gib(state.buffers)],
        ["activations", f"{gib(result.activations)} (a micro-batch of the longest samples)"],
        ["reserve", f"{gib(result.reserve)} (assumed: the device's own context)"],
        ["memory of a process", f"{gib(result.total)} of {gib(result.device_bytes)}: {verdict}"],
        ["device", device],
        ["component", f"{parameters.trained_bytes / 1e6:,.1f} MB, {share:.2%} of the backbone"],
        ["checkpoint", f"{parameters.checkpoint_bytes / 1e6:,.1f} MB with optimizer state"],
        ["lengths", f"{lengths.source}: {lengths.mean:,.0f} tokens a sample in the mean"],
        ["tokens a step", f"{result.tokens_per_step:,.0f}"],
        ["assumed speed", f"{speed.mfu:.0%} of {speed.device_tflops:g} TFLOP/s"],
        ["a step", f"{result.step_seconds:,.2f} s, sending between processes left out"],
        ["expected duration", _duration(result)],
    ]
    print_table("Estimate, memory on each process", ["what", "value"], rows)


def gib(size: int) -> str:
    """Bytes in GiB."""
    return f"{size / GIB:,.2f} GiB"


def _duration(result: Fit) -> str:
    if result.seconds is None:
        return "not known: give data.train or --samples"
    return f"{result.seconds / 3600:,.1f} hours for {result.steps:,} steps"
