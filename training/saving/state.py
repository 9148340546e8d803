"""The state of a training in safetensors and JSON, without pickle, written beside the steps."""

import copy
import json
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import TrainerState

from training.saving.checkpoints import ResumeError

OPTIMIZER_TENSORS = "optimizer.safetensors"
OPTIMIZER_GROUPS = "optimizer.json"
# State of each parameter by its name: {"lora_A.weight": {"exp_avg": [r, d], ...}}.
StateByName = dict[str, dict[str, torch.Tensor]]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingStateCopy:
    """What training_state/ is written from; nothing in it changes with the next step.

    Attributes:
        optimizer: whole tensors on the CPU, by parameter name.
        groups: the optimizer's groups without their parameters.
        processes: random state and pending loss of each process.
        progress: contents of progress.json.
        trainer: steps, epochs and logged figures.
    """

    optimizer: StateByName
    groups: list[dict[str, Any]]
    processes: list[tuple[int, Any]]
    progress: dict[str, Any]
    trainer: TrainerState


def write_optimizer(state: StateByName, groups: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write an optimizer's state: tensors by parameter name, the groups' settings as JSON."""
    tensors = {
        f"{name}.{key}": value.contiguous()
        for name, values in state.items()
        for key, value in values.items()
    }
    save_file(tensors, folder / OPTIMIZER_TENSORS)
    settings = [{k: v for k, v in group.items() if k != "params"} for group in groups]
    (folder / OPTIMIZER_GROUPS).write_text(json.dumps(settings))


def read_optimizer(folder: Path, names: Sequence[str]) -> tuple[StateByName, list[dict[str, Any]]]:
    """What `write_optimizer` wrote, for the parameters that train now.

    Args:
        names: parameters that train.

    Raises:
        ResumeError: the state is of other parameters.
    """
    state: StateByName = {}
    for key, value in load_file(folder / OPTIMIZER_TENSORS).items():
        name, _, part = key.rpartition(".")
        state.setdefault(name, {})[part] = value
    # Before the first step there is no state at all.
    strangers = sorted(set(names) ^ state.keys()) if state else []
    if strangers:
        raise ResumeError(
            f"{folder / OPTIMIZER_TENSORS} is of another model: {len(strangers)} parameters are "
            f"only in one of the two, such as {strangers[0]}. Resume with the recipe that wrote it"
        )
    groups = json.loads((folder / OPTIMIZER_GROUPS).read_text())
    for group in groups:
        if isinstance(group.get("betas"), list):
            group["betas"] = tuple(group["betas"])
    return state, groups


def rng_state() -> dict[str, Any]:
    """State of Python's, numpy's and torch's generators on this process, ready for JSON."""
    numpy_state = np.random.get_state(legacy=False)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()  # type: ignore[index]
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "python": random.getstate(),
        "numpy": numpy_state,
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "cuda": [state.numpy().tobytes().hex() for state in cuda],
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore what `rng_state` returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    numpy_state = state["numpy"]
    numpy_state["state"]["key"] = np.asarray(numpy_state["state"]["key"], dtype=np.uint32)
    np.random.set_state(numpy_state)
    torch.set_rng_state(_tensor(state["torch"]))
    for device, hexadecimal in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(_tensor(hexadecimal), device)


def _tensor(hexadecimal: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(hexadecimal), dtype=torch.uint8)


class ComponentCopy:
    """The form of a component without its weights: trained ones are copied in, frozen ones never.

    Make it before parameters are split: what splits them cannot be copied.

    Args:
        component: has `save_pretrained(folder)`, which reads no frozen weight.
    """

    def __init__(self, component: nn.Module) -> None:
        stand_ins: dict[int, Any] = {id(p): _stand_in(p) for p in component.parameters()}
        self.component: Any = copy.deepcopy(component, stand_ins)

    def take(self, component: nn.Module) -> None:
        """Copy the trained weights, which must be whole, into memory of their own on the CPU."""
        copies = dict(self.component.named_parameters())
        for name, parameter in component.named_parameters():
            if parameter.requires_grad:
                copies[name].data = parameter.detach().to("cpu", copy=True)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Give the memory of the copied weights back when the block ends."""
        try:
            yield
        finally:
            for parameter in self.component.parameters():
                if parameter.requires_grad:
                    parameter.data = parameter.new_empty(0)

    def save_pretrained(self, folder: Path) -> None:
        """Write the component's folder from the copied weights."""
        self.component.save_pretrained(folder)


def _stand_in(parameter: nn.Parameter) -> nn.Parameter:
    if parameter.requires_grad:
        return nn.Parameter(torch.empty(0, dtype=parameter.dtype))
    return nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=False)


class CheckpointWriter:
    """Does one write at a time in a thread of its own, and waits for each unless `in_background`.

    As a context it waits for the last write when the block ends. A failed write is raised, as the
    error that it was, by whichever of its methods is called next.
    """

    def __init__(self, in_background: bool) -> None:
        self.in_background = in_background
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._under_way: Future[None] | None = None

    def submit(self, write: Callable[[], None]) -> None:
        """Start a write, after the one under way; without `in_background` it is done on return.

        Raises: what the one under way failed with; the new one is then not begun. Without
            `in_background` also what the new one fails with.
        """
        self.wait()
        self._under_way = self._thread.submit(write)
        if not self.in_background:
            self.wait()

    def raise_failure(self) -> None:
        """Raise what a finished write failed with; one that is still under way is left alone."""
        if self._under_way is not None and self._under_way.done():
            self.wait()

    def wait(self) -> None:
        """Wait for the write under way, and raise what it failed with."""
        under_way = self._under_way
        if under_way is not None:
            # Forgotten only once it is over: an interrupted wait can be taken up again.
            try:
                under_way.result()
            finally:
                if under_way.done():
                    self._under_way = None

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.wait()
        except Exception as failure:
            if error is None:
                raise
            # The block's own error says more of why the training ended.
            logger.error("%s", failure)
