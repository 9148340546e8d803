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


class LaggingDiskError(UserError, RuntimeError):
    """Processes of one training that see different files."""


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


def require_same(what: str, mine: object) -> None:
    """Refuse processes that differ in what they read from a disk, such as a shared one that lags.

    what: the verb of the message.

    Raises:
        LaggingDiskError: names the processes and what each has.
    """
    state = PartialState()
    if state.num_processes > 1:
        found: list[object] = gather_object([mine])
        if any(each != found[0] for each in found):
            told = ", ".join(f"process {n} {what} {each}" for n, each in enumerate(found))
            raise LaggingDiskError(
                f"{told}. Start again once every machine sees the same files in output_dir"
            )


def leave_processes_in_order() -> None:
    """Close the process group when this process exits.

    The threads of a group that is left open can abort a process whose training has ended well.
    """
    if torch.distributed.is_initialized():
        atexit.register(_close_group)


def _close_group() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
