"""A training that found no memory ends with what would have fitted, by the estimate."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.errors import UserError
from training.fit.estimate import RESERVE_BYTES, device_memory, gib
from training.fit.memory import Launch, largest_batch, state_memory
from training.fit.sketch import Lengths, data_lengths, sketch
from training.recipe.recipe import Recipe
from training.recipe.settings import T2TSettings
from training.run.prepare import Prepared
from training.saving.checkpoints import checkpoints
from training.saving.sharding import FSDP_ASKED, is_asked
from training.saving.zero import ZERO_ASKED

ZERO_STAGE = "ACCELERATE_DEEPSPEED_ZERO_STAGE"


class TrainingMemoryError(UserError, RuntimeError):
    """A training found no memory; the message says where and what would fit."""


def memory_error(
    error: Exception, recipe: Recipe[Any, Any], prepared: Prepared, processes: int
) -> TrainingMemoryError:
    """Return the error to raise for one that says that there was no memory.

    processes: of the training.
    """
    # Elsewhere than in a micro-batch, as where the optimizer makes its state.
    said = str(error) if isinstance(error, UserError) else f"out of memory: {error}"
    remedy = what_fits(recipe, prepared.settings, data_lengths(prepared.train), processes)
    kept = checkpoints(Path(prepared.settings.output_dir))
    resume = f". train.resume=last goes on from {kept[-1].name}" if kept else ""
    return TrainingMemoryError(f"{said.splitlines()[0].rstrip('.')}. {remedy}{resume}")


def what_fits(
    recipe: Recipe[Any, Any],
    settings: T2TSettings,
    lengths: Lengths,
    processes: int,
    device_bytes: int | None = None,
) -> str:
    """Return in words a smaller micro-batch for the same steps, or what else saves memory.

    device_bytes: memory of a device; None: of this machine's.
    """
    room = device_memory()[0] if device_bytes is None else device_bytes
    train = settings.train
    for checkpointing in sorted({train.gradient_checkpointing, True}):
        tried = replace(settings, train=replace(train, gradient_checkpointing=checkpointing))
        try:
            fits = fitting_batch(recipe, tried, lengths, processes, room)
        except UserError:
            # Its configuration is not here, as that of a hub's model that is not reached again.
            return "Lower train.batch_size and raise train.gradient_accumulation_steps as much"
        is_as_it_was = checkpointing == train.gradient_checkpointing
        # The estimate may have been too low: what was tried did not fit.
        most = min(fits, train.batch_size - 1) if is_as_it_was else fits
        size = next((each for each in _divisors(train.batch_size) if each <= most), 0)
        if size:
            steps = train.gradient_accumulation_steps * train.batch_size // size
            saving = "" if is_as_it_was else " train.gradient_checkpointing=true"
            return (
                "By the estimate the same steps fit with "
                f"train.batch_size={size} train.gradient_accumulation_steps={steps}{saving}"
            )
    return (
        f"By the estimate no sample of {lengths.prompt + lengths.label:,} tokens fits into "
        f"{gib(room)}: lower model.max_input_tokens, or let several GPUs share the model "
        "(configs/accelerate/fsdp2.yaml)"
    )


def fitting_batch(
    recipe: Recipe[Any, Any],
    settings: T2TSettings,
    lengths: Lengths,
    processes: int,
    device_bytes: int,
) -> int:
    """Return the largest micro-batch of the longest samples that fits by the estimate; 0: none.

    Raises:
        ConfigError: no configuration of the backbone is here.
    """
    one = replace(settings, train=replace(settings.train, batch_size=1))
    of_one, whole = (sketch(each, recipe, lengths) for each in (one, settings))
    state = state_memory(whole.parameters, _launch(processes), processes)
    room = device_bytes - state.total - RESERVE_BYTES
    sizes = whole.run.peak_bytes, of_one.run.peak_bytes
    return largest_batch(room, settings.train.batch_size, *sizes)


def _launch(processes: int) -> Launch:
    if processes == 1:
        return Launch.one
    if is_asked(ZERO_ASKED):
        return Launch.zero3 if os.environ.get(ZERO_STAGE) == "3" else Launch.zero2
    return Launch.fsdp2 if is_asked(FSDP_ASKED) else Launch.ddp


def _divisors(number: int) -> Iterator[int]:
    """Yield them from the number itself down."""
    return (each for each in range(number, 0, -1) if number % each == 0)
