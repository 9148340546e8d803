"""The Trainer both recipes share: token-weighted loss, checks before a step, small checkpoints."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import DistributedType
from torch import nn
from torch.utils.data import DataLoader
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from models.parts.objective import OutcomeLoss
from training.loop.guards import StepGuard, data_worker_died, memory_error_named
from training.loop.outcomes import course_of, has_lost, items_of
from training.loop.preemption import WorkerSignals
from training.loop.resuming import ResumingTrainer
from training.loop.sampler import LengthGroupedSampler
from training.loop.schedule import Clock
from training.recipe.collator import Batch
from training.recipe.samples import SampleSet, data_hash
from training.recipe.settings import TrainSettings
from training.saving import zero
from training.saving.manager import CheckpointManager
from training.saving.sharding import check_sharded, shard_on_cpu, wrap_layers

Validate = Callable[[], dict[str, float]]


class ComponentTrainer(ResumingTrainer):
    """transformers.Trainer for a module that has `save_pretrained` and a label-token loss.

    Batches carry `sample_ids` next to the module's inputs. The module's loss is the sum over
    label tokens divided by `num_items_in_batch`, the label tokens of all micro-batches of all
    processes, so that every split of a batch gives the same gradient.

    Args:
        module: what is trained.
        lengths: tokens of each training sample, for grouping.
        validate: measures the module on the validation set; its figures are logged.
        clock: time already used, for a training with a budget in minutes.
        settings: the recipe's `train` group.
        most_lost: log-probability that rewarded tokens may lose before it stops; 0: any.
    """

    def __init__(
        self,
        module: nn.Module,
        args: TrainingArguments,
        train_dataset: SampleSet[Any],
        collator: Callable[[list[Any]], Batch],
        lengths: Sequence[int],
        settings: TrainSettings,
        validate: Validate,
        clock: Clock,
        most_lost: float = 0.0,
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
        self.schedule, self.warmup_ratio = settings.schedule, settings.warmup_ratio
        self.outcome_loss: OutcomeLoss | None = getattr(module, "outcome_loss", None)
        self.most_lost = most_lost
        self.checkpoints = CheckpointManager(
            Path(str(args.output_dir)),
            module,
            process=args.process_index,
            processes=args.world_size,
            writes=args.should_save,
            in_background=settings.background_saves,
            keep=args.save_total_limit,
        )
        wrap_layers(self.accelerator, module)
        if zero.runs(self.accelerator):
            zero.configure(self.accelerator, module, settings.autocast_bf16)
            self.add_callback(zero.EngineStep(self.accelerator))
        self.sampler = self._get_train_sampler()
        self.data_hash = data_hash(train_dataset)
        self.guard = StepGuard(self.accelerator, settings.loss_spike_factor)
        self._step_ids: list[list[str]] = []
        self._step_losses: list[torch.Tensor] = []
        self.add_callback(CarriedLoss(self))

    @property
    def samples_a_step(self) -> int:
        """Samples of an optimizer step, over all processes and micro-batches."""
        args = self.args
        return args.train_batch_size * args.gradient_accumulation_steps * args.world_size

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train; whichever way it ends, the last checkpoint is written before it returns."""
        with self.checkpoints.writer:
            return super().train(*args, **kwargs)

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGroupedSampler:
        micro_batch = self.args.train_batch_size * self.args.world_size
        self.sampler = LengthGroupedSampler(
            self.lengths,
            self.samples_a_step,
            self.args.seed,
            self.settings.group_by_length,
            multiple_of=micro_batch if self.args.world_size > 1 else 1,
        )
        return self.sampler

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The loader of Trainer, whose workers outlive a signal to the whole job."""
        loader = super().get_train_dataloader()
        inner = getattr(loader, "base_dataloader", loader)
        inner.worker_init_fn = WorkerSignals(self.settings.stop_signal, inner.worker_init_fn)
        return loader

    def create_accelerator_and_postprocess(self) -> None:
        """Trainer's accelerator, which splits parameters wherever that was asked for."""
        super().create_accelerator_and_postprocess()
        shard_on_cpu(self.accelerator)
        self.is_fsdp_enabled = self.accelerator.distributed_type == DistributedType.FSDP

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None
    ) -> tuple[nn.Module, Any]:
        # DeepSpeed would look for a checkpoint of its own form.
        theirs = None if zero.runs(self.accelerator) else resume_from_checkpoint
        model, loader = super()._prepare_for_training(max_steps, train_dataloader, theirs)
        check_sharded(self.accelerator, model)
        if zero.runs(self.accelerator):
            zero.take_over(self.accelerator, self.component)
            self._load_optimizer_and_scheduler(resume_from_checkpoint)
        return model, loader

    def _init_training_state(self, max_steps: int, *args: Any, **kwargs: Any) -> tuple[int, int]:
        done = super()._init_training_state(max_steps, *args, **kwargs)
        # Intervals are this recipe's, not those of the run that wrote the checkpoint.
        self.state.compute_steps(self.args, max_steps)
        return done

    def _run_epoch(self, model: Any, epoch: int, *args: Any, **kwargs: Any) -> None:
        # Through the wrappers of several processes' resumed epoch nobody else reaches it.
        self.sampler.set_epoch(epoch)
        super()._run_epoch(model, epoch, *args, **kwargs)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Batch], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], torch.Tensor | int | None]:
        """Take the micro-batches of one step and keep their sample ids for error messages.

        Raises: what writing the last checkpoint failed with.
        """
        self.checkpoints.writer.raise_failure()
        try:
            batches, label_tokens = super().get_batch_samples(epoch_iterator, num_batches, device)
        except (OSError, EOFError, RuntimeError) as error:
            # A batch that a dead worker left behind fails in many ways.
            if not self.args.dataloader_num_workers:
                raise
            raise data_worker_died(error) from error
        label_tokens = items_of(self.accelerator, self.outcome_loss, batches, label_tokens)
        self._step_ids = [batch.pop("sample_ids") for batch in batches]
        self._step_losses = []
        return batches, label_tokens

    def training_step(
        self, model: nn.Module, inputs: Batch, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """One forward and backward; the loss is kept on the device until the step's check.

        Raises:
            BatchMemoryError: there was no memory for it.
        """
        with memory_error_named(f"at step {self.state.global_step + 1}", inputs):
            loss = super().training_step(model, inputs, num_items_in_batch)
        self._step_losses.append(loss)
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        # Called once a step, between clipping and the optimizer: the one place to stop in time.
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        step = self.state.global_step + 1
        self.guard.check(step, self._step_losses, self._step_ids, norm)
        return norm

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW with its own learning rate for the graph encoder where the recipe gives one."""
        if self.optimizer is None:
            assert self.model is not None
            parameters = dict(self.model.named_parameters())
            rate, graph_rate = self.args.learning_rate, self.settings.graph_learning_rate
            groups = [
                {
                    "params": [parameters[name] for name in names],
                    "weight_decay": self.args.weight_decay if decay else 0.0,
                    "lr": graph_rate if is_graph and graph_rate is not None else rate,
                }
                for (is_graph, decay), names in self._grouped_names().items()
            ]
            optimizer_class, options = self.get_optimizer_cls_and_kwargs(self.args)
            self.optimizer = optimizer_class(groups, **options)
        return self.optimizer

    def _grouped_names(self) -> dict[tuple[bool, bool], list[str]]:
        """Names of trained parameters by (of the graph encoder, with weight decay)."""
        assert self.model is not None
        decayed = set(self.get_decay_parameter_names(self.model))
        groups: dict[tuple[bool, bool], list[str]] = {}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                groups.setdefault(("graph_encoder" in name, name in decayed), []).append(name)
        return groups

    def parameter_names(self) -> list[str]:
        """Names of trained parameters, in the order of the optimizer's groups."""
        return list(chain.from_iterable(self._grouped_names().values()))

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log figures; at the end the mean loss of all steps, not of those since the resume."""
        if "train_loss" in logs:
            logs["train_loss"] = self.mean_loss
        if "loss" in logs and self.outcome_loss is not None:
            logs |= course_of(self.accelerator, self.outcome_loss)
            self.control.should_training_stop |= has_lost(logs, self.most_lost)
        super().log(logs, *args, **kwargs)

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

    @property
    def component(self) -> Any:
        """What is trained, without the wrapper of several processes; has `save_pretrained`."""
        return self.accelerator.unwrap_model(self.model)

    def order(self) -> dict[str, Any]:
        """What decides which samples each step holds; a resumed training needs the same."""
        return {
            "samples a step": self.samples_a_step,
            "train.seed": self.args.seed,
            "train.group_by_length": self.settings.group_by_length,
            "training samples": self.data_hash,
        }

    def losses(self) -> dict[str, Any]:
        """Sums of the losses, with what the checks before a step remember."""
        return {
            **super().losses(),
            "total": self._total_loss_scalar,
            "last_logged": self._globalstep_last_logged,
            "recent": list(self.guard.recent),
        }

    @property
    def mean_loss(self) -> float:
        """Mean training loss over all steps, those before a resume too."""
        return self._total_loss_scalar / max(self.state.global_step, 1)

    def owes_validation(self) -> bool:
        """Whether the step that a resumed training begins after is still to be validated."""
        args, state = self.args, self.state
        if args.eval_strategy == "no" or not state.global_step:
            return False
        if args.eval_strategy == "epoch":
            due = float(state.epoch).is_integer()
        else:
            due = (
                not state.global_step % self.settings.eval_steps
                or state.global_step >= state.max_steps
            )
        last = max((e["step"] for e in state.log_history if "eval_loss" in e), default=0)
        return due and last < state.global_step


class CarriedLoss(TrainerCallback):
    """Lets a resumed training log what it would have logged without the stop.

    That is the mean of losses before and after, and a validation that the stop left out.
    """

    def __init__(self, trainer: ComponentTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Go on from the checkpoint's sums."""
        carried = self.trainer.carried_loss
        if carried is not None:
            self.trainer._tr_loss.fill_(carried["loss"])
            self.trainer._total_loss_scalar = carried["total"]
            self.trainer._globalstep_last_logged = carried["last_logged"]
            self.trainer.guard.recent.extend(carried["recent"])
        if self.trainer.owes_validation():
            self.trainer.evaluate()
