"""The Trainer both recipes share: token-weighted loss, checks before a step, small checkpoints."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

from training.checkpoints import write_checkpoint
from training.errors import NonFiniteLossError
from training.sampler import LengthGroupedSampler
from training.schedule import Clock, build_scheduler
from training.settings import TrainSettings
from training.training_state import load_optimizer, set_rng_state

logger = logging.getLogger(__name__)
Batch = dict[str, Any]
Validate = Callable[[], dict[str, float]]


class ComponentTrainer(Trainer):
    """transformers.Trainer for a module that has `save_pretrained` and a label-token loss.

    Batches carry `sample_ids` next to the module's inputs. The module's loss is the sum over
    label tokens divided by `num_items_in_batch`, the label tokens of all micro-batches of all
    processes, so that every split of a batch gives the same gradient.

    Args:
        module: what is trained; see `training.module.TrainedModule`.
        lengths: tokens of each training sample, for grouping.
        validate: measures the module on the validation set; its figures are logged.
        clock: time already used, for a training with a budget in minutes.
        settings: the recipe's `train` group.
    """

    def __init__(
        self,
        module: nn.Module,
        args: TrainingArguments,
        train_dataset: Dataset[Any],
        collator: Callable[[list[Any]], Batch],
        lengths: Sequence[int],
        settings: TrainSettings,
        validate: Validate,
        clock: Clock,
    ) -> None:
        # Trainer wants an eval_dataset wherever it evaluates; `validate` holds the real one.
        super().__init__(
            model=module,
            args=args,
            train_dataset=train_dataset,
            eval_dataset=train_dataset,
            data_collator=collator,
        )
        self.lengths = lengths
        self.settings = settings
        self.validate = validate
        self.clock = clock
        self._step_ids: list[list[str]] = []
        self._step_losses: list[torch.Tensor] = []

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGroupedSampler:
        step_size = self.args.train_batch_size * self.args.gradient_accumulation_steps
        return LengthGroupedSampler(
            self.lengths,
            step_size * self.args.world_size,
            self.args.seed,
            self.settings.group_by_length,
        )

    def get_batch_samples(
        self, epoch_iterator: Iterator[Batch], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], torch.Tensor | int | None]:
        """Take the micro-batches of one step and keep their sample ids for error messages."""
        batches, label_tokens = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._step_ids = [batch.pop("sample_ids") for batch in batches]
        self._step_losses = []
        return batches, label_tokens

    def training_step(
        self, model: nn.Module, inputs: Batch, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """One forward and backward; the loss is kept on the device until the step's check."""
        loss = super().training_step(model, inputs, num_items_in_batch)
        self._step_losses.append(loss)
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        # Called once a step, between clipping and the optimizer: the one place to stop in time.
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        self._check_finite(norm)
        return norm

    def _check_finite(self, grad_norm: torch.Tensor | float | None) -> None:
        finite = torch.isfinite(torch.stack(self._step_losses)).tolist()
        step = self.state.global_step + 1
        if not all(finite):
            bad = [ids for ids, good in zip(self._step_ids, finite, strict=True) if not good]
            raise NonFiniteLossError("the loss", step, list(chain(*bad)))
        if grad_norm is not None and not torch.isfinite(torch.as_tensor(grad_norm)):
            raise NonFiniteLossError("the gradient", step, list(chain(*self._step_ids)))

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW with its own learning rate for the graph encoder where the recipe gives one."""
        if self.optimizer is None:
            optimizer_class, options = self.get_optimizer_cls_and_kwargs(self.args)
            self.optimizer = optimizer_class(self._parameter_groups(), **options)
        return self.optimizer

    def _parameter_groups(self) -> list[dict[str, Any]]:
        assert self.model is not None
        decayed = set(self.get_decay_parameter_names(self.model))
        groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                key = ("graph_encoder" in name, name in decayed)
                groups.setdefault(key, []).append(parameter)
        graph_rate = self.settings.graph_learning_rate or self.args.learning_rate
        return [
            {
                "params": parameters,
                "weight_decay": self.args.weight_decay if decay else 0.0,
                "lr": graph_rate if is_graph else self.args.learning_rate,
            }
            for (is_graph, decay), parameters in groups.items()
        ]

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """The recipe's schedule over steps and, with a budget, over time."""
        if self.lr_scheduler is None:
            optimizer = optimizer or self.optimizer
            assert optimizer is not None
            self.lr_scheduler = build_scheduler(
                optimizer,
                self.settings.schedule,
                self.settings.warmup_ratio,
                num_training_steps,
                self.clock,
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Measure on the validation set, as the recipe's own `validate` does."""
        figures = {f"{metric_key_prefix}_{k}": v for k, v in self.validate().items()}
        self.log(dict(figures))
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, figures
        )
        return figures

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the component (no frozen weight) into a folder, whole or not at all."""
        if self.args.should_save:
            module = self.accelerator.unwrap_model(self.model)
            module.save_pretrained(Path(output_dir or str(self.args.output_dir)))

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        self.store_flos()
        write_checkpoint(self)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        # The script has already built the module from the checkpoint's component.
        return None

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        folder = Path(checkpoint)
        assert self.optimizer is not None and self.lr_scheduler is not None
        load_optimizer(self.optimizer, folder)
        state = json.loads((folder / "progress.json").read_text())
        self.lr_scheduler.load_state_dict(state["scheduler"])
        self.clock.earlier_seconds = state["elapsed_seconds"]

    def _load_rng_state(self, checkpoint: str | None) -> None:
        path = Path(checkpoint or "") / f"rng_{self.args.process_index}.json"
        if checkpoint is not None and path.is_file():
            set_rng_state(json.loads(path.read_text()))
        elif checkpoint is not None:
            logger.warning("%s is missing: dropout goes on from another random state", path)

    def _load_scaler(self, checkpoint: str | None) -> None:
        return None
