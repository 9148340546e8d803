"""What every trainer here does with its own checkpoints: save, restore, go on where it stood."""

from pathlib import Path
from typing import Any

import torch
from transformers import Trainer

from training.loop.schedule import Clock, Schedule, build_scheduler, give_rates, rates_of
from training.saving.manager import CheckpointManager, Standing


class ResumingTrainer(Trainer):
    """transformers.Trainer with a recipe's schedule and pickle-free checkpoints.

    A subclass sets the attributes before it trains, and tells what is saved.
    """

    checkpoints: CheckpointManager
    clock: Clock
    schedule: Schedule
    warmup_ratio: float
    # Sums of the losses before the resume; None without one.
    carried_loss: dict[str, Any] | None = None

    @property
    def component(self) -> Any:
        """What is trained and saved; has `save_pretrained`."""
        raise NotImplementedError

    def parameter_names(self) -> list[str]:
        """Return the names of trained parameters, in the order of the optimizer's groups."""
        raise NotImplementedError

    def order(self) -> dict[str, Any]:
        """Return what decides which samples each step holds; a resumed training needs the same."""
        raise NotImplementedError

    def losses(self) -> dict[str, Any]:
        """Return the sums of the losses that a resumed training goes on from."""
        return {"loss": float(self._tr_loss)}

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Return the recipe's schedule over steps and, with a budget, over time."""
        if self.lr_scheduler is None:
            optimizer = optimizer or self.optimizer
            assert optimizer is not None
            self.lr_scheduler = build_scheduler(
                optimizer, self.schedule, self.warmup_ratio, num_training_steps, self.clock
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def standing(self) -> Standing:
        """Return where the training stands, as this process knows it."""
        assert self.lr_scheduler is not None
        scheduler = self.lr_scheduler.state_dict()
        return Standing(scheduler, self.clock.elapsed_seconds, self.order(), self.losses())

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        # Resumed after its last step, a run would otherwise take one more.
        if self.control.should_training_stop or self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **kwargs)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.store_flos()
        names = self.parameter_names()
        self.checkpoints.save(self.component, self.optimizer, names, self.state, self.standing)

    def _load_from_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        # The script has already built the module from the checkpoint's component.
        return None

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        assert self.lr_scheduler is not None
        names, rates = self.parameter_names(), rates_of(self.lr_scheduler)
        stood = self.checkpoints.restore(Path(checkpoint), self.optimizer, names, self.order())
        self.lr_scheduler.load_state_dict(stood.scheduler)
        self.clock.earlier_seconds = stood.elapsed_seconds
        give_rates(self.lr_scheduler, rates)
        self.carried_loss = stood.loss

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            self.checkpoints.restore_random(Path(checkpoint))

    def _load_scaler(self, checkpoint: str | None) -> None:
        return None
