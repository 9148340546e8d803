"""A step is looked at before the optimizer takes it, by all processes together."""

import statistics
from collections import deque
from collections.abc import Sequence
from itertools import chain

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from training.recipe.agreement import summed
from training.recipe.errors import LossSpikeError, NonFiniteLossError
from training.recipe.samples import FILLING_ID

# Steps that a usual loss is the median of, and how many of them it takes at least.
WINDOW, AT_LEAST = 50, 10


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
        bad = [not _is_finite(value) for value in values]
        bad_norm = grad_norm is not None and not _is_finite(float(grad_norm))
        mine = [float(any(bad)), float(bad_norm), 0.0 if any(bad) else sum(values)]
        any_bad, any_bad_norm, loss = summed(self.accelerator, mine)
        if any_bad:
            those = [ids for ids, is_bad in zip(sample_ids, bad, strict=True) if is_bad]
            raise NonFiniteLossError("the loss", step, self._of_all(those))
        if any_bad_norm:
            raise NonFiniteLossError("the gradient", step, self._of_all(sample_ids))
        # Each process's loss is scaled up by their number.
        self._check_spike(step, loss / self.accelerator.num_processes, sample_ids)

    def _check_spike(self, step: int, loss: float, sample_ids: Sequence[list[str]]) -> None:
        if self.spike_factor and len(self.recent) >= AT_LEAST:
            usual = statistics.median(self.recent)
            if loss > self.spike_factor * usual:
                raise LossSpikeError(loss, usual, step, self._of_all(sample_ids))
        self.recent.append(loss)

    def _of_all(self, sample_ids: Sequence[list[str]]) -> list[str]:
        mine = [name for name in chain(*sample_ids) if name != FILLING_ID]
        return list(gather_object(mine)) if self.accelerator.num_processes > 1 else mine


def _is_finite(value: float) -> bool:
    return abs(value) < float("inf")
