"""The recipe's settings in the words of transformers, and what was really launched."""

import os
from typing import Any

import torch
from accelerate.utils import DistributedType
from transformers import TrainingArguments

from training.config import ConfigError
from training.errors import LaunchError
from training.settings import T2TSettings

SUPPORTED = (
    DistributedType.NO,
    DistributedType.MULTI_GPU,
    DistributedType.MULTI_CPU,
    DistributedType.FSDP,
)


def training_arguments(settings: T2TSettings) -> TrainingArguments:
    """Arguments of the shared Trainer; without an accelerator it runs on the CPU."""
    train = settings.train
    return TrainingArguments(
        output_dir=settings.output_dir,
        per_device_train_batch_size=train.batch_size,
        gradient_accumulation_steps=train.gradient_accumulation_steps,
        learning_rate=train.learning_rate,
        weight_decay=train.weight_decay,
        max_grad_norm=train.max_grad_norm,
        num_train_epochs=train.num_train_epochs,
        max_steps=train.max_steps or -1,
        seed=train.seed,
        bf16=train.autocast_bf16,
        use_cpu=not torch.accelerator.is_available(),
        dataloader_num_workers=train.num_workers,
        dataloader_pin_memory=torch.cuda.is_available(),
        ddp_find_unused_parameters=False,
        include_num_input_tokens_seen="non_padding",
        label_names=["labels"],
        # A loss that is not finite must be seen, not replaced by the running mean.
        logging_nan_inf_filter=False,
        disable_tqdm=True,
        remove_unused_columns=False,
        report_to="none",
        **_intervals(settings),
    )


def check_launch(args: TrainingArguments, distributed_type: Any, num_processes: int) -> None:
    """Compare what was asked for with what started: most failures of a launch are silent.

    Args:
        args: the arguments after the processes have met.
        distributed_type: what accelerate says that it runs.
        num_processes: the recipe's `train.num_processes`; 0: any.

    Raises:
        LaunchError: another number of processes, or another kind of parallelism.
    """
    if num_processes and args.world_size != num_processes:
        raise LaunchError(
            f"train.num_processes={num_processes}, but {args.world_size} started. On CPUs use "
            f"ACCELERATE_USE_CPU=true torchrun --nproc_per_node {num_processes} SCRIPT ..."
        )
    if int(os.environ.get("WORLD_SIZE", "1")) != args.world_size:
        raise LaunchError(
            f"WORLD_SIZE={os.environ['WORLD_SIZE']}, but the process group has {args.world_size}"
        )
    for variable, kind in (
        ("ACCELERATE_USE_DEEPSPEED", DistributedType.DEEPSPEED),
        ("ACCELERATE_USE_FSDP", DistributedType.FSDP),
    ):
        if os.environ.get(variable, "").lower() == "true" and distributed_type != kind:
            raise LaunchError(f"{kind.value} was asked for, but {distributed_type} runs")
    if distributed_type not in SUPPORTED:
        raise LaunchError(
            f"{distributed_type} splits parameters in a way whose checkpoints these recipes "
            "cannot write; launch with configs/accelerate/fsdp2.yaml or multi_gpu.yaml"
        )


def _intervals(settings: T2TSettings) -> dict[str, Any]:
    train = settings.train
    if train.early_stopping_patience and not settings.data.dev:
        raise ConfigError("train.early_stopping_patience needs validation samples: give data.dev")
    between = "steps" if train.eval_steps else "epoch" if train.early_stopping_patience else "no"
    return {
        "logging_steps": train.logging_steps,
        "logging_first_step": True,
        "eval_strategy": between if settings.data.dev else "no",
        "eval_steps": train.eval_steps or None,
        "save_strategy": "steps" if train.save_steps else "epoch",
        "save_steps": train.save_steps or 500,
        "save_total_limit": train.save_total_limit or None,
    }
