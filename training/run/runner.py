"""The one set-up under every recipe: checks, report, training, checkpoints, final figures."""

import argparse
import json
import logging
import math
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback
from transformers.utils import logging as transformers_logging

from common.commands import error_line
from common.errors import UserError
from common.tables import emit_json
from models.files.backbone import resolve_dtype
from models.parts.adapters import trainable_bytes
from models.processors.passages import InputLimitError
from training.fit.estimate import estimate
from training.loop.callbacks import EarlyStopping, History, Progress, TensorBoard
from training.loop.guards import data_worker_died, is_out_of_memory
from training.loop.preemption import (
    STOPPED,
    StopOnSignal,
    StoppedBySignal,
    StopRequest,
    listening,
    requeue,
)
from training.loop.schedule import Clock, StopAtBudget
from training.loop.trainer import ComponentTrainer
from training.recipe.agreement import (
    any_process,
    leave_processes_in_order,
    require_same,
    together,
)
from training.recipe.drawn import NothingToLearnError
from training.recipe.recipe import Recipe, SettingsT
from training.recipe.samples import SourceT
from training.recipe.settings import Dtype, load_config
from training.run.arguments import check_launch, training_arguments
from training.run.out_of_memory import memory_error
from training.run.prepare import Prepared, prepare
from training.run.report import (
    estimate_cost,
    print_metrics,
    print_parameters,
    print_plan,
    print_sample,
)
from training.run.run_folder import claimed, history_log, note_nothing_to_learn, record_start
from training.saving.checkpoints import TRAINING_STATE, check_room

logger = logging.getLogger(__name__)


def carry_out(recipe: Recipe[SettingsT, SourceT], arguments: argparse.Namespace) -> None:
    """Train and report, or estimate, as a command line says (training/run/command.py).

    An expected error ends with one line and code 1.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for noisy in ("httpx2", "absl", "accelerate"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    transformers_logging.set_verbosity_error()
    try:
        if arguments.estimate:
            estimate(arguments, recipe)
            return
        settings = load_config(recipe.settings_type, arguments.config, arguments.overrides)
        # As it is on this machine, so that the run's record says it.
        settings.model.dtype = Dtype(resolve_dtype(settings.model.dtype.value))
        with listening(settings.train.stop_signal) as stop:
            args = training_arguments(settings)
            metrics = _claim_and_train(recipe, settings, args, stop)
    except InputLimitError as error:
        sys.exit(f"{recipe.script}: {arguments.config}: model.{error}")
    except (UserError, OSError) as error:
        sys.exit(f"{recipe.script}: {error_line(error)}")
    except StoppedBySignal as error:
        logger.warning("%s", error)
        sys.exit(STOPPED)
    if arguments.json and args.should_save:
        emit_json(metrics)


def _claim_and_train(
    recipe: Recipe[SettingsT, SourceT], settings: SettingsT, args: Any, stop: StopRequest
) -> dict[str, Any]:
    with ExitStack() as held:

        def start() -> Prepared:
            if args.should_save:
                held.enter_context(claimed(Path(settings.output_dir), settings.train.resume))
            torch.manual_seed(settings.train.seed)
            try:
                return prepare(recipe, settings, args.device)
            except NothingToLearnError as error:
                if args.should_save:
                    note_nothing_to_learn(Path(settings.output_dir), str(error))
                raise

        prepared = together(start)
        require_same("resumes from", prepared.resume and prepared.resume.name)
        try:
            metrics = run_training(prepared, args, stop)
            leave_processes_in_order()
            return metrics
        except StoppedBySignal:
            if args.should_save and settings.train.slurm_requeue and stop.is_to_requeue:
                requeue()
            raise
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                raise memory_error(error, recipe, prepared, args.world_size) from error
            # It comes up wherever the main process happens to be.
            if isinstance(error, UserError) or "DataLoader worker" not in str(error):
                raise
            raise data_worker_died(error) from error


def run_training(prepared: Prepared, args: Any, stop: StopRequest | None = None) -> dict[str, Any]:
    """Train, write the component and metrics.json into output_dir, return the figures.

    Args:
        stop: what signals have asked for; None where none are listened to.

    Raises:
        NonFiniteLossError: names the samples; the optimizer has not stepped on them.
        BatchMemoryError: a micro-batch found no memory.
        CheckpointWriteError: a full disk; earlier checkpoints are whole.
        LaunchError: not the processes that were asked for.
        StoppedBySignal: the checkpoint is written, or nothing was new.
    """
    stop = stop or StopRequest()
    train = prepared.settings.train
    clock = Clock(train.max_train_minutes)
    if train.gradient_checkpointing:
        prepared.module.gradient_checkpointing_enable()  # type: ignore[operator]
    trainer = trainer_of(prepared, args, clock)
    check_launch(args, trainer.accelerator.distributed_type, train.num_processes)
    progress = Progress(clock)
    trainer.add_callback(progress)
    trainer.add_callback(History(history_log(args.output_dir)))
    agree = partial(any_process, trainer.accelerator)
    trainer.add_callback(StopAtBudget(clock, agree))
    stopping = EarlyStopping(
        prepared.module, prepared.settings.output_dir, train.early_stopping_patience
    )
    if train.early_stopping_patience:
        trainer.add_callback(stopping)
    if train.tensorboard:
        trainer.add_callback(TensorBoard(Path(prepared.settings.output_dir) / "tensorboard"))
    # Last, so that what others ask for at the same step is known.
    stopper = StopOnSignal(stop, agree)
    trainer.add_callback(stopper)
    if args.should_save:
        Path(args.output_dir).mkdir(parents=True, exist_ok=True)
        trained = trainable_bytes(prepared.module)
        check_room(Path(args.output_dir), trained, "Nothing has been trained yet.")
        processes = {
            "number": args.world_size,
            "kind": trainer.accelerator.distributed_type.value,
            "device": str(args.device),
        }
        settings = plain_settings(prepared.settings)
        record_start(Path(args.output_dir), settings, processes, prepared.resume)
        _print_start(prepared, trainer)
    measure_only = train.num_train_epochs == 0 and train.max_steps == 0
    if measure_only:
        # FSDP and DeepSpeed place a model only once it trains.
        prepared.module.to(args.device)
    figures = {} if measure_only else _train(prepared, trainer, progress)
    if stopper.stopped:
        raise stop.error(f"after step {trainer.state.global_step}")
    if train.early_stopping_patience and not measure_only:
        trainer.accelerator.wait_for_everyone()
        figures.update(stopping.restore())
    recorded = {"settings": plain_settings(prepared.settings)}
    # Before validation, which takes minutes and must not be able to lose the training.
    trainer.checkpoints.install(trainer.component, {**figures, **recorded})
    with stop.interrupting():
        metrics = {**figures, **trainer.evaluate()}
    trainer.checkpoints.record({**metrics, **recorded})
    if args.should_save:
        print_metrics(metrics)
    trainer.accelerator.wait_for_everyone()
    return {"output_dir": prepared.settings.output_dir, **metrics}


def _train(prepared: Prepared, trainer: ComponentTrainer, progress: Progress) -> dict[str, Any]:
    state = str(prepared.resume / TRAINING_STATE) if prepared.resume else None
    started = time.monotonic()
    try:
        trainer.train(resume_from_checkpoint=state)
    finally:
        progress.close()
    return {
        "train_loss": trainer.mean_loss,
        "steps": trainer.state.global_step,
        "epochs": trainer.state.epoch,
        "train_seconds": round(time.monotonic() - started, 1),
        "train_tokens_per_second": round(progress.tokens_per_second(trainer.state), 1),
    }


def plain_settings(settings: Any) -> dict[str, Any]:
    """The settings, a dataclass, as JSON can hold them."""

    def enum_name(value: Any) -> str:
        return value.name if isinstance(value, Enum) else str(value)

    return dict(json.loads(json.dumps(asdict(settings), default=enum_name)))


def trainer_of(prepared: Prepared, args: Any, clock: Clock) -> ComponentTrainer:
    """The recipe's trainer; what reports, stops and saves its training is the caller's."""
    validate = prepared.validate or (lambda accelerator: {})
    trainer = ComponentTrainer(
        module=prepared.module,
        args=args,
        train_dataset=prepared.train,
        collator=prepared.collate,
        lengths=prepared.train.lengths,
        settings=prepared.settings.train,
        validate=lambda: validate(trainer.accelerator),
        clock=clock,
        most_lost=prepared.settings.objective.most_lost,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _planned_steps(prepared: Prepared, trainer: ComponentTrainer) -> int:
    args = trainer.args
    batches = math.ceil(len(prepared.train) / (args.train_batch_size * args.world_size))
    a_epoch = math.ceil(batches / args.gradient_accumulation_steps)
    return args.max_steps if args.max_steps > 0 else math.ceil(a_epoch * args.num_train_epochs)


def _print_start(prepared: Prepared, trainer: ComponentTrainer) -> None:
    settings, args = prepared.settings, trainer.args
    print_sample(prepared.train[0], prepared.tokenizer)
    print_parameters(prepared.module)
    steps = _planned_steps(prepared, trainer)
    step_samples = args.train_batch_size * args.gradient_accumulation_steps
    tokens = steps * step_samples * sum(prepared.train.lengths) / len(prepared.train)
    # A model that is to be split on GPUs is still in main memory, and may not fit on one of them.
    is_in_place = next(prepared.module.parameters()).device.type == args.device.type
    cost = is_in_place and estimate_cost(
        prepared.module,
        prepared.collate,
        prepared.train.samples,
        args.train_batch_size,
        tokens,
        args.device,
        settings.train.autocast_bf16,
    )
    plan = {
        "steps": f"{steps:,} of {step_samples * args.world_size} samples",
        "budget": f"{settings.train.max_train_minutes or 'none'} minutes",
        "processes": f"{args.world_size}, {trainer.accelerator.distributed_type.value}",
        "device": str(args.device),
    }
    print_plan(prepared.train, plan, cost or None)
