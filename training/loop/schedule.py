"""Learning rate over a training that is bounded by steps, by minutes, or by both."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.recipe.settings import Schedule

logger = logging.getLogger(__name__)


class Clock:
    """Minutes trained so far, carried over a resume."""

    def __init__(self, budget_minutes: float = 0.0) -> None:
        self.budget_seconds = 60.0 * budget_minutes
        self.earlier_seconds = 0.0
        self._started: float | None = None

    def start(self) -> None:
        """Begin to count; what an earlier run used stays counted."""
        self._started = time.monotonic()

    @property
    def elapsed_seconds(self) -> float:
        """Seconds trained, earlier runs included."""
        running = time.monotonic() - self._started if self._started is not None else 0.0
        return self.earlier_seconds + running

    @property
    def fraction(self) -> float:
        """Share of the budget that is used; 0 without a budget."""
        return self.elapsed_seconds / self.budget_seconds if self.budget_seconds else 0.0


def learning_rate_factor(schedule: Schedule, progress: float, warmup_ratio: float) -> float:
    """Factor on the peak learning rate at `progress` in [0, 1] of the training."""
    progress = min(max(progress, 0.0), 1.0)
    if progress < warmup_ratio:
        return progress / warmup_ratio
    if schedule is Schedule.constant:
        return 1.0
    decayed = (progress - warmup_ratio) / max(1e-9, 1.0 - warmup_ratio)
    if schedule is Schedule.linear:
        return 1.0 - decayed
    return 0.5 * (1.0 + math.cos(math.pi * decayed))


def build_scheduler(
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    warmup_ratio: float,
    max_steps: int,
    clock: Clock,
) -> LambdaLR:
    """A scheduler whose progress is the larger of steps done and time used.

    The first optimizer step already moves: progress counts the step about to be taken.
    """

    def factor(step: int) -> float:
        progress = max((step + 1) / (max_steps + 1), clock.fraction)
        return learning_rate_factor(schedule, progress, warmup_ratio)

    return LambdaLR(optimizer, factor)


def rates_of(scheduler: Any) -> list[dict[str, float]]:
    """Return the learning rate, before any schedule, and the weight decay of each group."""
    groups = scheduler.optimizer.param_groups
    return [{name: group[name] for name in ("initial_lr", "weight_decay")} for group in groups]


def give_rates(scheduler: Any, rates: Sequence[Mapping[str, float]]) -> None:
    """Let a schedule that was restored go on with these rates, as `rates_of` returned them.

    The recipe that resumes may have others than the checkpoint: a lower learning rate after a loss
    that was not finite.
    """
    groups = scheduler.optimizer.param_groups
    for group, own, factor in zip(groups, rates, scheduler.lr_lambdas, strict=True):
        if own["initial_lr"] != group["initial_lr"]:
            before = group["initial_lr"]
            logger.info("the learning rate's peak is %g now, was %g", own["initial_lr"], before)
            group["lr"] = own["initial_lr"] * factor(scheduler.last_epoch)
        group.update(own)
    scheduler.base_lrs = [own["initial_lr"] for own in rates]


class StopAtBudget(TrainerCallback):
    """Starts the clock with the training and stops cleanly once the budget is used."""

    def __init__(self, clock: Clock, agree: Callable[[bool], bool]) -> None:
        self.clock = clock
        self.agree = agree

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        self.clock.start()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if self.clock.budget_seconds and self.agree(self.clock.fraction >= 1.0):
            control.should_training_stop = True
