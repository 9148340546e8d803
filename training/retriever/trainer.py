"""The trainer of sentence-transformers with this project's schedule and pickle-free checkpoints."""

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.training_args import (
    BatchSamplers,
    SentenceTransformerTrainingArguments,
)
from torch import nn

from models.files.checkpoint import package_versions, write_manifest
from training.loop.resuming import ResumingTrainer
from training.loop.schedule import Clock
from training.retriever.settings import RetrieverSettings
from training.run.arguments import keep_to_one_gpu
from training.saving.manager import CheckpointManager


class SavedEncoder(nn.Module):
    """An encoder as its folder is written, with the limit of tokens that it came with."""

    def __init__(self, encoder: SentenceTransformer, settings: RetrieverSettings) -> None:
        super().__init__()
        self.encoder = encoder
        self.max_tokens = encoder.max_seq_length
        self.described = {
            "component": "sentence_encoder",
            "trained_from": settings.model.encoder,
            "versions": package_versions(),
        }

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that `SentenceTransformer(folder)` loads, with a manifest."""
        while_training, self.encoder.max_seq_length = self.encoder.max_seq_length, self.max_tokens
        try:
            self.encoder.save_pretrained(str(folder), create_model_card=False)
        finally:
            self.encoder.max_seq_length = while_training
        write_manifest(Path(folder), self.described)


class RetrieverTrainer(ResumingTrainer, SentenceTransformerTrainer):
    """Draws queries to their passages, away from their negatives and from those of the batch.

    Args:
        order: what decides which samples each step holds; a resumed training needs the same.
        clock: time already used, for a training with a budget in minutes.
        evaluator: measures recall; None without validation samples.
    """

    def __init__(
        self,
        encoder: SentenceTransformer,
        args: SentenceTransformerTrainingArguments,
        rows: Dataset,
        settings: RetrieverSettings,
        order: dict[str, Any],
        clock: Clock,
        evaluator: Any,
    ) -> None:
        self.clock, self._order, self._saved = clock, order, SavedEncoder(encoder, settings)
        self.schedule, self.warmup_ratio = settings.train.schedule, settings.train.warmup_ratio
        limits = [n for n in (encoder.max_seq_length, settings.model.max_tokens) if n]
        # Before the trainer ties itself to the encoder, which is copied for its checkpoints.
        self.checkpoints = CheckpointManager(
            Path(settings.output_dir),
            self._saved,
            process=args.process_index,
            processes=args.world_size,
            writes=args.should_save,
            in_background=False,
            keep=settings.train.save_total_limit or None,
        )
        encoder.max_seq_length = min(limits, default=None)
        super().__init__(
            model=encoder,
            args=args,
            train_dataset=rows,
            loss=MultipleNegativesRankingLoss(encoder, scale=settings.train.scale),
            evaluator=evaluator,
        )

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none: the encoder's folder has a manifest in its place."""

    @property
    def component(self) -> SavedEncoder:
        """The encoder as its folder is written."""
        return self._saved

    def order(self) -> dict[str, Any]:
        """What decides which samples each step holds."""
        return self._order

    def parameter_names(self) -> list[str]:
        """Return the names of trained parameters, in the order of the optimizer's groups."""
        assert self.model is not None and self.optimizer is not None
        name_of = {id(p): name for name, p in self.model.named_parameters()}
        return [name_of[id(p)] for group in self.optimizer.param_groups for p in group["params"]]

    @property
    def mean_loss(self) -> float:
        """Mean of the logged losses, those before a resume too."""
        losses = [entry["loss"] for entry in self.state.log_history if "loss" in entry]
        return sum(losses) / max(len(losses), 1)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One forward and backward of the library's."""
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        assert self.model is not None
        for parameter in self.model.parameters():
            # Of a pooler that the embedding makes no use of: a checkpoint has a state of all.
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        return loss


def trainer_arguments(settings: RetrieverSettings) -> SentenceTransformerTrainingArguments:
    """Return the recipe in the words of the library; without an accelerator it runs on the CPU."""
    train, has_dev = settings.train, bool(settings.data.dev)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=settings.output_dir,
        per_device_train_batch_size=train.batch_size,
        learning_rate=train.learning_rate,
        weight_decay=train.weight_decay,
        max_grad_norm=train.max_grad_norm,
        num_train_epochs=train.num_train_epochs,
        max_steps=train.max_steps or -1,
        seed=train.seed,
        bf16=train.autocast_bf16,
        use_cpu=not torch.accelerator.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        # No two samples of a batch share a text: one's passage is no negative of the other.
        batch_sampler=BatchSamplers.NO_DUPLICATES,
        logging_steps=train.logging_steps,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        eval_strategy="steps" if train.eval_steps and has_dev else "no",
        eval_steps=train.eval_steps or None,
        save_strategy="steps" if train.save_steps else "epoch",
        save_steps=train.save_steps or 500,
        report_to="none",
    )
    # Processes with unequal numbers of batches would wait for each other for ever.
    arguments.dataloader_drop_last = arguments.world_size > 1
    keep_to_one_gpu(arguments)
    return arguments
