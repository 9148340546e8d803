"""The recipe's settings in the words of transformers, and what was really launched."""

import logging
import os
from typing import Any

import torch
from accelerate.utils import DistributedType
from transformers import TrainingArguments

from training.recipe.settings import ConfigError, T2TSettings
from training.saving.sharding import FSDP_ASKED, LaunchError, is_asked
from training.saving.zero import ZERO_ASKED, check_installed, load_whole

logger = logging.getLogger(__name__)
SUPPORTED = (
    DistributedType.NO,
    DistributedType.MULTI_GPU,
    DistributedType.MULTI_CPU,
    DistributedType.FSDP,
    DistributedType.DEEPSPEED,
)


def training_arguments(settings: T2TSettings) -> TrainingArguments:
    """Arguments of the shared Trainer; without an accelerator it runs on the CPU.

    Raises:
        LaunchError: DeepSpeed was asked for and is not installed.
    """
    train = settings.train
    with_zero, on_cpu = is_asked(ZERO_ASKED), not torch.accelerator.is_available()
    if with_zero:
        check_installed()
    arguments = TrainingArguments(
        output_dir=settings.output_dir,
        per_device_train_batch_size=train.batch_size,
        gradient_accumulation_steps=train.gradient_accumulation_steps,
        learning_rate=train.learning_rate,
        weight_decay=train.weight_decay,
        max_grad_norm=train.max_grad_norm,
        num_train_epochs=train.num_train_epochs,
        max_steps=train.max_steps or -1,
        seed=train.seed,
        # DeepSpeed's own bfloat16 would train adapters in it; see training/saving/zero.py.
        bf16=train.autocast_bf16 and not with_zero,
        # accelerate runs no DeepSpeed on what it is told to be a CPU.
        use_cpu=on_cpu and not with_zero,
        ddp_backend="gloo" if on_cpu and with_zero else None,
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
    if with_zero:
        load_whole()
    keep_to_one_gpu(arguments)
    return arguments


def keep_to_one_gpu(args: TrainingArguments) -> None:
    """Let a process that sees several GPUs train on the first.

    The library would split batches over all of them with `torch.nn.DataParallel`, which these
    models do not run under.
    """
    if args.n_gpu > 1:
        logger.warning(
            "%d GPUs are visible to this process, which trains on one of them. To use all, start "
            "with `accelerate launch`; to choose one, set CUDA_VISIBLE_DEVICES",
            args.n_gpu,
        )
        args._n_gpu = 1


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
        (ZERO_ASKED, DistributedType.DEEPSPEED),
        (FSDP_ASKED, DistributedType.FSDP),
    ):
        if is_asked(variable) and distributed_type != kind:
            raise LaunchError(
                f"{kind.value} was asked for, but {distributed_type} runs. Launch several "
                "processes as the header of its file in configs/accelerate/ says"
            )
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
