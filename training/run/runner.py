"""The one set-up under every recipe: checks, report, training, checkpoints, final figures."""

import argparse
import json
import logging
import math
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from torch import nn
from transformers import PreTrainedTokenizerBase, PrinterCallback
from transformers.utils import logging as transformers_logging

from common.errors import UserError
from common.tables import emit_json
from models.files.backbone import resolve_dtype
from models.parts.adapters import ALL_LINEAR, trainable_bytes
from training.fit.command import add_fit_options, estimate
from training.fit.sketch import Outline
from training.loop.callbacks import EarlyStopping, Progress, TensorBoard
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
from training.recipe.agreement import any_process, leave_processes_in_order, together
from training.recipe.errors import DataWorkerError
from training.recipe.samples import SampleSet
from training.recipe.settings import Dtype, T2TSettings, load_config
from training.run.arguments import check_launch, training_arguments
from training.run.report import (
    estimate_cost,
    print_metrics,
    print_parameters,
    print_plan,
    print_sample,
)
from training.run.run_folder import History, claimed, record_start
from training.run.validation import Collate
from training.saving.checkpoints import TRAINING_STATE, check_room, install_component

logger = logging.getLogger(__name__)
SettingsT = TypeVar("SettingsT", bound=T2TSettings)
Validator = Callable[[Accelerator], dict[str, float]]


@dataclass
class Recipe:
    """What differs between the recipes.

    Attributes:
        settings: the recipe as read.
        module: what is trained; has `save_pretrained(folder)`, and its forward gives `.loss`.
        tokenizer: only to show a decoded sample.
        train: encoded training samples.
        collate: samples to a batch with `sample_ids`.
        validate: figures on the validation set; None without one.
        resume: checkpoint folder that `module` was loaded from, or None.
    """

    settings: T2TSettings
    module: nn.Module
    tokenizer: PreTrainedTokenizerBase
    train: SampleSet[Any]
    collate: Collate
    validate: Validator | None
    resume: Path | None


def run_command(
    name: str,
    description: str,
    settings_type: type[SettingsT],
    prepare: Callable[[SettingsT], Recipe],
    outline: Outline,
) -> None:
    """Read the command line, train and report, or estimate.

    An expected error ends with one line and code 1.
    """
    arguments = _parser(name, description).parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for noisy in ("httpx", "absl", "accelerate"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    transformers_logging.set_verbosity_error()
    try:
        if arguments.estimate:
            estimate(arguments, settings_type, outline)
            return
        settings = load_config(settings_type, arguments.config, arguments.overrides)
        # As it is on this machine, so that the run's record says it.
        settings.model.dtype = Dtype(resolve_dtype(settings.model.dtype.value))
        with listening(settings.train.stop_signal) as stop:
            args = training_arguments(settings)
            metrics = _claim_and_train(settings, args, prepare, stop)
    except (UserError, FileNotFoundError) as error:
        sys.exit(f"{name}: {error}")
    except StoppedBySignal as error:
        logger.warning("%s", error)
        sys.exit(STOPPED)
    if arguments.json and args.should_save:
        emit_json(metrics)


def _claim_and_train(
    settings: SettingsT, args: Any, prepare: Callable[[SettingsT], Recipe], stop: StopRequest
) -> dict[str, Any]:
    with ExitStack() as held:

        def start() -> Recipe:
            if args.should_save:
                held.enter_context(claimed(Path(settings.output_dir), settings.train.resume))
            torch.manual_seed(settings.train.seed)
            return prepare(settings)

        recipe = together(start)
        try:
            metrics = run_training(recipe, args, stop)
            leave_processes_in_order()
            return metrics
        except StoppedBySignal:
            if args.should_save and settings.train.slurm_requeue and stop.is_to_requeue:
                requeue()
            raise
        except RuntimeError as error:
            # It comes up wherever the main process happens to be.
            if "DataLoader worker" not in str(error):
                raise
            raise DataWorkerError(error) from error


def run_training(recipe: Recipe, args: Any, stop: StopRequest | None = None) -> dict[str, Any]:
    """Train a recipe, write the component and metrics.json into output_dir, return the figures.

    Args:
        stop: what signals have asked for; None where none are listened to.

    Raises:
        NonFiniteLossError: names the samples; the optimizer has not stepped on them.
        CheckpointWriteError: a full disk; earlier checkpoints are whole.
        LaunchError: not the processes that were asked for.
        StoppedBySignal: the checkpoint is written, or nothing was new.
    """
    stop = stop or StopRequest()
    train = recipe.settings.train
    clock = Clock(train.max_train_minutes)
    if train.gradient_checkpointing:
        recipe.module.gradient_checkpointing_enable()  # type: ignore[operator]
    trainer = trainer_of(recipe, args, clock)
    check_launch(args, trainer.accelerator.distributed_type, train.num_processes)
    progress = Progress(clock)
    trainer.add_callback(progress)
    trainer.add_callback(History(args.output_dir))
    agree = partial(any_process, trainer.accelerator)
    trainer.add_callback(StopAtBudget(clock, agree))
    stopping = EarlyStopping(
        recipe.module, recipe.settings.output_dir, train.early_stopping_patience
    )
    if train.early_stopping_patience:
        trainer.add_callback(stopping)
    if train.tensorboard:
        trainer.add_callback(TensorBoard(Path(recipe.settings.output_dir) / "tensorboard"))
    # Last, so that what others ask for at the same step is known.
    stopper = StopOnSignal(stop, agree)
    trainer.add_callback(stopper)
    if args.should_save:
        Path(args.output_dir).mkdir(parents=True, exist_ok=True)
        trained = trainable_bytes(recipe.module)
        check_room(Path(args.output_dir), trained, "Nothing has been trained yet.")
        processes = {
            "number": args.world_size,
            "kind": trainer.accelerator.distributed_type.value,
            "device": str(args.device),
        }
        settings = plain_settings(recipe.settings)
        record_start(Path(args.output_dir), settings, processes, recipe.resume)
        _print_start(recipe, trainer)
    measure_only = train.num_train_epochs == 0 and train.max_steps == 0
    if measure_only:
        # FSDP and DeepSpeed place a model only once it trains.
        recipe.module.to(args.device)
    figures = {} if measure_only else _train(recipe, trainer, progress)
    if stopper.stopped:
        raise stop.error(f"after step {trainer.state.global_step}")
    if train.early_stopping_patience and not measure_only:
        trainer.accelerator.wait_for_everyone()
        figures.update(stopping.restore())
    recorded = {"settings": plain_settings(recipe.settings)}
    # Before validation, which takes minutes and must not be able to lose the training.
    install_component(trainer, {**figures, **recorded})
    with stop.interrupting():
        metrics = {**figures, **trainer.evaluate()}
    install_component(trainer, {**metrics, **recorded})
    if args.should_save:
        print_metrics(metrics)
    trainer.accelerator.wait_for_everyone()
    return {"output_dir": recipe.settings.output_dir, **metrics}


def _train(recipe: Recipe, trainer: ComponentTrainer, progress: Progress) -> dict[str, Any]:
    state = str(recipe.resume / TRAINING_STATE) if recipe.resume else None
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


def plain_settings(settings: T2TSettings) -> dict[str, Any]:
    """The settings as JSON can hold them."""
    return dict(json.loads(json.dumps(asdict(settings), default=_enum_name)))


def lora_targets(names: list[str]) -> list[str] | str:
    """PEFT's form of the recipe's list: the word alone, or names of modules."""
    return ALL_LINEAR if names == [ALL_LINEAR] else names


def _enum_name(value: Any) -> str:
    return value.name if isinstance(value, Enum) else str(value)


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("--config", type=Path, required=True, help="recipe, a YAML file")
    parser.add_argument(
        "--json", action="store_true", help="print the figures as one JSON object, last"
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="win over the file, as train.seed=1"
    )
    add_fit_options(parser)
    return parser


def trainer_of(recipe: Recipe, args: Any, clock: Clock) -> ComponentTrainer:
    """The recipe's trainer; what reports, stops and saves its training is the caller's."""
    validate = recipe.validate or (lambda accelerator: {})
    trainer = ComponentTrainer(
        module=recipe.module,
        args=args,
        train_dataset=recipe.train,
        collator=recipe.collate,
        lengths=recipe.train.lengths,
        settings=recipe.settings.train,
        validate=lambda: validate(trainer.accelerator),
        clock=clock,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _planned_steps(recipe: Recipe, trainer: ComponentTrainer) -> int:
    args = trainer.args
    batches = math.ceil(len(recipe.train) / (args.train_batch_size * args.world_size))
    a_epoch = math.ceil(batches / args.gradient_accumulation_steps)
    return args.max_steps if args.max_steps > 0 else math.ceil(a_epoch * args.num_train_epochs)


def _print_start(recipe: Recipe, trainer: ComponentTrainer) -> None:
    settings, args = recipe.settings, trainer.args
    print_sample(recipe.train[0], recipe.tokenizer)
    print_parameters(recipe.module)
    steps = _planned_steps(recipe, trainer)
    step_samples = args.train_batch_size * args.gradient_accumulation_steps
    tokens = steps * step_samples * sum(recipe.train.lengths) / len(recipe.train)
    # A model that is to be split on GPUs is still in main memory, and may not fit on one of them.
    is_in_place = next(recipe.module.parameters()).device.type == args.device.type
    cost = is_in_place and estimate_cost(
        recipe.module,
        recipe.collate,
        recipe.train.samples,
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
    print_plan(recipe.train, plan, cost or None)
