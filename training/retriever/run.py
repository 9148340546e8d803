"""One training of a retriever: checks, recall before, training, checkpoints, recall after."""

import logging
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from common.files import file_sha256
from models.files.sentence_encoder import load_transformer
from training.loop.callbacks import History
from training.loop.preemption import StopOnSignal, StopRequest
from training.loop.schedule import Clock, StopAtBudget
from training.recipe.agreement import any_process, leave_processes_in_order, require_same, together
from training.recipe.settings import ConfigError
from training.retriever.data import CUTS, read_samples, recall_evaluator, training_rows
from training.retriever.settings import RetrieverSettings
from training.retriever.trainer import RetrieverTrainer, trainer_arguments
from training.run.arguments import check_launch
from training.run.run_folder import claimed, history_log, record_start
from training.run.runner import plain_settings
from training.saving.checkpoints import TRAINING_STATE, check_room, resume_folder

logger = logging.getLogger(__name__)
# What is kept of the evaluator's figures, by our name.
FIGURES = {
    **{f"recall@{k}": f"eval_cosine_recall@{k}" for k in CUTS},
    "mrr@10": "eval_cosine_mrr@10",
}


def check(settings: RetrieverSettings) -> None:
    """Refuse numbers that no training can be made of.

    Raises:
        ConfigError: names the key.
    """
    train = settings.train
    for key, value, least in (
        ("train.batch_size", train.batch_size, 1),
        ("train.negatives", train.negatives, 0),
        ("model.max_tokens", settings.model.max_tokens, 1),
    ):
        if value < least:
            raise ConfigError(f"{key}={value}: must be at least {least}")
    if train.batch_size == 1 and not train.negatives:
        raise ConfigError(
            "train.batch_size=1 with train.negatives=0 has nothing to tell a passage from. "
            "Raise one of them"
        )


def train_retriever(settings: RetrieverSettings, stop: StopRequest) -> dict[str, Any]:
    """Train, write the encoder and metrics.json into output_dir, return the figures.

    Raises:
        ConfigError, RecordError: the recipe or its data cannot be used.
        EncoderNotFoundError: `model.encoder` is no sentence encoder.
        ResumeError: there is no checkpoint to resume from.
        StoppedBySignal: the checkpoint is written, or nothing was new.
    """
    check(settings)
    args = trainer_arguments(settings)
    with ExitStack() as held:

        def start() -> tuple[RetrieverTrainer, Path | None]:
            if args.should_save:
                held.enter_context(claimed(Path(settings.output_dir), settings.train.resume))
            torch.manual_seed(settings.train.seed)
            return _prepared(settings, args)

        trainer, resume = together(start)
        require_same("resumes from", resume and resume.name)
        metrics = _run(settings, trainer, resume, stop)
        leave_processes_in_order()
        return metrics


def _prepared(settings: RetrieverSettings, args: Any) -> tuple[RetrieverTrainer, Path | None]:
    data, train = settings.data, settings.train
    resume = resume_folder(train.resume, settings.output_dir)
    read = partial(read_samples, seed=train.seed, skip_bad=data.skip_bad_records)
    samples = read("data.train", data.train, data.max_train_samples)
    rows = training_rows(data.train, samples, train.negatives)
    dev = read("data.dev", data.dev, data.max_dev_samples) if data.dev else []
    encoder: SentenceTransformer = load_transformer(str(resume or settings.model.encoder))
    order = {
        "samples a step": args.train_batch_size * args.world_size,
        "train.seed": train.seed,
        "train.negatives": train.negatives,
        "training samples": f"{len(rows)} of {file_sha256(data.train)[:16]}",
    }
    evaluator = recall_evaluator(dev) if dev else None
    clock = Clock(train.max_train_minutes)
    return RetrieverTrainer(encoder, args, rows, settings, order, clock, evaluator), resume


def _run(
    settings: RetrieverSettings, trainer: RetrieverTrainer, resume: Path | None, stop: StopRequest
) -> dict[str, Any]:
    args, output_dir = trainer.args, Path(settings.output_dir)
    check_launch(args, trainer.accelerator.distributed_type, settings.train.num_processes)
    agree = partial(any_process, trainer.accelerator)
    trainer.add_callback(History(history_log(output_dir)))
    trainer.add_callback(StopAtBudget(trainer.clock, agree))
    # Last, so that what others ask for at the same step is known.
    stopper = StopOnSignal(stop, agree)
    trainer.add_callback(stopper)
    if args.should_save:
        size = sum(p.numel() * p.element_size() for p in trainer.component.parameters())
        check_room(output_dir, size, "Nothing has been trained yet.")
        kind = trainer.accelerator.distributed_type.value
        processes = {"number": args.world_size, "kind": kind, "device": str(args.device)}
        record_start(output_dir, plain_settings(settings), processes, resume)
    before = {} if resume else {f"{k} before": v for k, v in _recall(trainer).items()}
    started = time.monotonic()
    with trainer.checkpoints.writer:
        trainer.train(resume_from_checkpoint=str(resume / TRAINING_STATE) if resume else None)
    if stopper.stopped:
        raise stop.error(f"after step {trainer.state.global_step}")
    figures = {
        "train_loss": trainer.mean_loss,
        "steps": trainer.state.global_step,
        "epochs": trainer.state.epoch,
        "train_seconds": round(time.monotonic() - started, 1),
        **before,
    }
    recorded = {"settings": plain_settings(settings)}
    # Before validation, which takes minutes and must not be able to lose the training.
    trainer.checkpoints.install(trainer.component, {**figures, **recorded})
    with stop.interrupting():
        figures |= _recall(trainer)
    trainer.checkpoints.record({**figures, **recorded})
    trainer.accelerator.wait_for_everyone()
    return {"output_dir": settings.output_dir, **figures}


def _recall(trainer: RetrieverTrainer) -> dict[str, float]:
    """Return the figures on the validation set; none without one, and on other processes."""
    if trainer.evaluator is None:
        return {}
    measured = trainer.evaluate()
    return {name: measured[key] for name, key in FIGURES.items() if key in measured}
