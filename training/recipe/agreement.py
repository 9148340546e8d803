"""Decisions that the processes of one training take together, so that none waits for another."""

import atexit
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import gather_object

from common.errors import UserError

T = TypeVar("T")


class OtherProcessError(UserError, RuntimeError):
    """Another process of this training failed, and says why itself."""

    def __init__(self, processes: Sequence[int]) -> None:
        listed = ", ".join(map(str, processes))
        super().__init__(f"process {listed} cannot start; see its own message")


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


def leave_processes_in_order() -> None:
    """Close the process group when this process exits.

    The threads of a group that is left open can abort a process whose training has ended well.
    """
    if torch.distributed.is_initialized():
        atexit.register(_close_group)


def _close_group() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
