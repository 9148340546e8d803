"""What is asked of every contestant of a comparison of training steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn


@dataclass(frozen=True)
class Forward:
    """Loss of a batch and the tokens, padding included, that the backbone worked through."""

    loss: Tensor
    padded_tokens: int


class StepModel(Protocol):
    """A model in training mode."""

    @property
    def module(self) -> nn.Module:
        """Holds every parameter that trains."""
        ...

    def forward(self, batch: Sequence[int]) -> Forward:
        """From the workload's samples of these indices to their loss, batching included."""
        ...
