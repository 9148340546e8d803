"""Errors that stop a training, and what its processes decide together before one stops."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import gather_object

from common.errors import UserError

T = TypeVar("T")


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
        problem = " ".join(str(cause).split())[:300]
        super().__init__(
            f"a process that collates batches died: {problem} Give the job more memory or lower "
            "train.num_workers; train.resume=last goes on from the last checkpoint"
        )


class CutLabelsError(UserError, ValueError):
    """Samples whose label does not fit, found before the training starts."""

    def __init__(self, sample_ids: Sequence[str], shown: int = 20) -> None:
        self.sample_ids = list(sample_ids)
        listed = ", ".join(self.sample_ids[:shown])
        rest = f" and {len(sample_ids) - shown} more" if len(sample_ids) > shown else ""
        super().__init__(
            f"the label is cut away in {len(sample_ids)} samples: {listed}{rest}. Raise "
            "model.max_input_tokens or model.max_output_tokens, or set "
            "data.skip_cut_labels=true to leave them out."
        )


class ResumeError(UserError, ValueError):
    """A checkpoint that this training cannot go on from; the message says why and what helps."""


class LaunchError(UserError, RuntimeError):
    """The processes that started are not the ones that were asked for."""


class OtherProcessError(UserError, RuntimeError):
    """Another process of this training failed, and says why itself."""

    def __init__(self, processes: Sequence[int]) -> None:
        listed = ", ".join(map(str, processes))
        super().__init__(f"process {listed} cannot start; see its own message")


class RunFolderError(UserError, RuntimeError):
    """A run's folder is in use, or holds another training that would be lost."""


class EmptyDataError(UserError, ValueError):
    """A data file without a usable sample; the message names it."""


def any_process(accelerator: Accelerator, mine: bool) -> bool:
    """Whether at least one process says so."""
    return summed(accelerator, [float(mine)])[0] > 0


def summed(accelerator: Accelerator, mine: list[float]) -> list[float]:
    """Numbers added up over all processes."""
    if accelerator.num_processes == 1:
        return mine
    values = torch.tensor(mine, dtype=torch.float64, device=accelerator.device)
    total: list[float] = accelerator.reduce(values, "sum").tolist()
    return total


def together(action: Callable[[], T]) -> T:
    """Run an action that makes no use of the other processes; where one fails, all stop.

    Raises:
        OtherProcessError: it failed elsewhere; there the error itself is raised.
    """
    failure: Exception | None = None
    try:
        result = action()
    except Exception as error:
        failure = error
    state = PartialState()
    if state.num_processes > 1:
        failed = gather_object([state.process_index] if failure is not None else [])
        if failed and failure is None:
            raise OtherProcessError(failed)
    if failure is not None:
        raise failure
    return result
