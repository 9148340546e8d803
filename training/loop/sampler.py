"""The order of samples: batches of about the same length, the same order for every resume."""

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

MEGA_BATCHES = 50


class LengthGroupedSampler(Sampler[int]):
    """Sample indices, grouped by length inside each optimizer step, in a new order each epoch.

    Samples are shuffled, sorted inside pools of 50 steps, cut into steps, and the steps are
    shuffled. How a step is split into micro-batches does not change which samples it holds.

    Args:
        lengths: tokens of each sample.
        step_size: samples an optimizer step over all processes and micro-batches.
        seed: order of epoch 0; the epoch is added.
        group: False only shuffles.
        multiple_of: the epoch is filled up to a multiple of this with the index `len(lengths)`,
            which stands for a sample without a label. Several processes otherwise repeat real
            samples at an epoch's end, and no longer take the steps that one process takes.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        step_size: int,
        seed: int,
        group: bool = True,
        multiple_of: int = 1,
    ) -> None:
        self.lengths = torch.as_tensor(lengths)
        self.step_size = step_size
        self.seed = seed
        self.group = group
        self.filling = [len(lengths)] * (-len(lengths) % multiple_of)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths) + len(self.filling)

    def __iter__(self) -> Iterator[int]:
        return iter([*self._order(), *self.filling])

    def _order(self) -> list[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(len(self.lengths), generator=generator)
        if not self.group or not len(order):
            return order.tolist()
        pools = order.split(self.step_size * MEGA_BATCHES)
        ordered = [
            pool[torch.argsort(self.lengths[pool], descending=True, stable=True)] for pool in pools
        ]
        steps = [step for pool in ordered for step in pool.split(self.step_size)]
        # A short step goes last, so that every other one has its full size.
        full = [step for step in steps if len(step) == self.step_size]
        short = [step for step in steps if len(step) < self.step_size]
        shuffled = [full[i] for i in torch.randperm(len(full), generator=generator).tolist()]
        return torch.cat([*shuffled, *short]).tolist()
