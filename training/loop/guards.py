"""A step is looked at before the optimizer takes it, and what ends a training is named."""

import math
import re
import signal
import statistics
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from common.errors import UserError
from training.recipe.agreement import summed
from training.recipe.samples import FILLING_ID

# Steps that a usual loss is the median of, and how many of them it takes at least.
WINDOW, AT_LEAST = 50, 10
# PyTorch has a type of its own for a GPU's memory alone.
MEMORY_MESSAGES = ("not enough memory", "can't allocate memory")


class NonFiniteLossError(UserError, RuntimeError):
    """A loss or gradient is not a number; the optimizer has not stepped on it."""

    def __init__(self, what: str, step: int, sample_ids: Sequence[str]) -> None:
        self.sample_ids = list(sample_ids)
        super().__init__(
            f"{what} is not finite at step {step}; the optimizer has not stepped. "
            f"Samples: {', '.join(self.sample_ids)}. Look at these samples, or lower the "
            "learning rate."
        )


class LossSpikeError(UserError, RuntimeError):
    """A loss far above those before it; the optimizer has not stepped on it."""

    def __init__(self, loss: float, usual: float, step: int, sample_ids: Sequence[str]) -> None:
        self.sample_ids = list(sample_ids)
        super().__init__(
            f"the loss is {loss:.4g} at step {step}, where {usual:.4g} was usual; the optimizer "
            f"has not stepped. Samples: {', '.join(self.sample_ids)}. Look at these samples, lower "
            "the learning rate, or raise train.loss_spike_factor (0: never stop)."
        )


class DataWorkerError(UserError, RuntimeError):
    """A process that collates batches died."""

    def __init__(self, cause: BaseException) -> None:
        problem = " ".join(str(cause).split())[:300].rstrip(".")
        super().__init__(
            f"a process that collates batches died: {problem}. Give the job more memory or lower "
            "train.num_workers; train.resume=last goes on from the last checkpoint"
        )


class BatchMemoryError(UserError, RuntimeError):
    """A micro-batch found no memory; the optimizer has not stepped on it."""

    def __init__(self, when: str, batch: Mapping[str, Any], cause: BaseException) -> None:
        samples, tokens = batch["input_ids"].shape
        asked = re.search(r"tried to allocate ([\d.]+ \w+)", str(cause), re.IGNORECASE)
        what = f", where {asked[1]} were asked for" if asked else ""
        super().__init__(
            f"out of memory {when}, in a micro-batch of {samples} samples with up to {tokens:,} "
            f"input tokens{what}"
        )


@contextmanager
def memory_error_named(when: str, batch: Mapping[str, Any]) -> Iterator[None]:
    """Name the batch that finds no memory in this block.

    Args:
        when: the step, in words.
        batch: what the module is given.

    Raises:
        BatchMemoryError: there was none.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise BatchMemoryError(when, batch, error) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that there was no memory, on any device."""
    if isinstance(error, UserError):
        # A process that collates batches has an error of its own, which quotes PyTorch's.
        return isinstance(error, BatchMemoryError)
    said = str(error)
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(words in said for words in MEMORY_MESSAGES)
    )


def data_worker_died(cause: BaseException) -> DataWorkerError:
    """Return the error to raise; PyTorch's signal of a dead worker interrupts nothing any more."""
    # Only there is it set, and can be taken back.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return DataWorkerError(cause)


class StepGuard:
    """Stops before a loss or gradient that is not finite, or a loss far above the usual.

    Args:
        spike_factor: a loss above this many times the median of the last 50 stops; 0: never.
    """

    def __init__(self, accelerator: Accelerator, spike_factor: float) -> None:
        self.accelerator = accelerator
        self.spike_factor = spike_factor
        self.recent: deque[float] = deque(maxlen=WINDOW)

    def check(
        self,
        step: int,
        losses: Sequence[torch.Tensor],
        sample_ids: Sequence[list[str]],
        grad_norm: torch.Tensor | float | None,
    ) -> None:
        """Look at the losses of this process's micro-batches, and at the norm of the gradient.

        Raises:
            NonFiniteLossError: on all processes, naming the samples of whichever it was.
            LossSpikeError: the same.
        """
        values = torch.stack(list(losses)).tolist()
        bad = [not math.isfinite(value) for value in values]
        bad_norm = grad_norm is not None and not math.isfinite(grad_norm)
        mine = [float(any(bad)), float(bad_norm), 0.0 if any(bad) else sum(values)]
        any_bad, any_bad_norm, loss = summed(self.accelerator, mine)
        if any_bad:
            those = [ids for ids, is_bad in zip(sample_ids, bad, strict=True) if is_bad]
            raise NonFiniteLossError("the loss", step, self._of_all(those))
        if any_bad_norm:
            raise NonFiniteLossError("the gradient", step, self._of_all(sample_ids))
        # Each process's loss is scaled up by their number.
        loss /= self.accelerator.num_processes
        if self.spike_factor and len(self.recent) >= AT_LEAST:
            usual = statistics.median(self.recent)
            # A loss around 0, as a policy's, has no usual size.
            if 0 < self.spike_factor * usual < loss:
                raise LossSpikeError(loss, usual, step, self._of_all(sample_ids))
        self.recent.append(loss)

    def _of_all(self, sample_ids: Sequence[list[str]]) -> list[str]:
        mine = [name for name in chain(*sample_ids) if name != FILLING_ID]
        return list(gather_object(mine)) if self.accelerator.num_processes > 1 else mine
