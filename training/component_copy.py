"""A second component that only holds copied trained weights, to be saved while the first trains."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn


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
