"""Whether a training fits a device, and how long it is expected to take."""

import math
import os
from dataclasses import dataclass

import torch

from training.fit.memory import Launch, StateMemory, state_memory
from training.fit.sketch import Sketch

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
