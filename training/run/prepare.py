"""From a recipe to what is trained: data, a module new or gone on from, and its validation."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from training.recipe.drawn_samples import DrawnCollator
from training.recipe.recipe import Recipe, SettingsT, encode_data
from training.recipe.samples import SampleSet, SourceT
from training.recipe.settings import ConfigError, T2TSettings
from training.run.likelihood import check_likelihoods, placed, without_dropout
from training.run.validation import Validator, make_validator
from training.saving.checkpoints import resume_folder

logger = logging.getLogger(__name__)
# What a component may be told anew by the recipe that goes on from it, beside all limits.
RENEWED = ("compare_dates", "instructions", "tasks")
# What may differ between the component and the recipe: it holds no weight.
FREE = (
    *RENEWED,
    "backbone_revision",
    "lora_dropout",
    "dropout",
    "graph_position",
    "output_dim",
)


@dataclass
class Prepared:
    """A recipe with its data read and its module built.

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
    collate: Callable[[list[Any]], dict[str, Any]]
    validate: Validator | None
    resume: Path | None


def prepare(
    recipe: Recipe[SettingsT, SourceT],
    settings: SettingsT,
    device: str | torch.device = "cpu",
) -> Prepared:
    """Read and encode the data, build the module or load the one to go on from.

    device: where the likelihood of drawn tokens is checked; the module is returned on the CPU.

    Raises:
        ConfigError: the settings, the data and `model.start_from` do not fit together.
        ResumeError: there is no checkpoint to resume from.
        OutcomeError: drawn tokens have another likelihood under the module than at their draw.
        What `encode_data` and the component's `from_pretrained` raise.
    """
    recipe.check(settings)
    resume = resume_folder(settings.train.resume, settings.output_dir)
    data = encode_data(recipe, settings)
    module = load_module(recipe, settings, data.config, resume)
    collate = recipe.collator(data.tokenizer, data.features)
    module.outcome_loss = data.outcome_loss
    validate = (
        make_validator(recipe.score, settings, module, data.tokenizer, collate, data.dev)
        if data.dev
        else None
    )
    batches: Callable[[list[Any]], dict[str, Any]] = collate
    if data.outcome_loss is not None:
        batches = DrawnCollator(collate)
        without_dropout(module)
        if resume is None and data.outcome_loss.kind != "best_of":
            with placed(module, device):
                check_likelihoods(module, data.train.samples, batches)
    return Prepared(settings, module, data.tokenizer, data.train, batches, validate, resume)


def load_module(
    recipe: Recipe[SettingsT, SourceT], settings: SettingsT, config: Any, resume: Path | None
) -> Any:
    """Return the recipe's module: with a checkpoint's weights, another component's, or untrained.

    Raises:
        ConfigError: the component's weights are of other shapes, or no module can be built.
    """
    dtype, start = recipe.stored_dtype(settings), settings.model.start_from
    if resume:
        return recipe.component.from_pretrained(resume, dtype=dtype, is_trainable=True)
    if not start:
        return recipe.untrained(settings, config)
    module = recipe.component.from_pretrained(start, dtype=dtype, is_trainable=True)
    check_same_shapes(start, module.settings, config)
    # The rest, dropout and revision too, is what the component was loaded with.
    names = [item.name for item in fields(config)]
    renewed = [name for name in names if name in RENEWED or name.startswith("max_")]
    for name in RENEWED:
        theirs, ours = (getattr(each, name, None) for each in (module.settings, config))
        if theirs != ours:
            logger.warning("%s: %s was %s and is %s from here on", start, name, theirs, ours)
    module.settings = replace(module.settings, **{name: getattr(config, name) for name in renewed})
    return module.train()


def check_same_shapes(folder: str | Path, stored: Any, wanted: Any) -> None:
    """Refuse to start from a component whose weights are not those of the recipe's model.

    Args:
        folder: the component, for the message.
        stored: the component's settings, a dataclass.
        wanted: the recipe's model in the same dataclass.

    Raises:
        ConfigError: names every setting that differs, with both values.
    """
    differing = [
        f"{key} is {theirs!r} there and {ours!r} here"
        for key, theirs, ours in _pairs(asdict(stored), asdict(wanted))
        if theirs != ours
    ]
    if differing:
        raise ConfigError(
            f"model.start_from={folder}: {'; '.join(differing)}. Set the recipe's model and graph "
            "groups to the component's values, or leave model.start_from empty"
        )


def _pairs(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = ""
) -> list[tuple[str, Any, Any]]:
    pairs: list[tuple[str, Any, Any]] = []
    for key, theirs in stored.items():
        ours = wanted[key]
        if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
            pairs.extend(_pairs(theirs, ours, f"{prefix}{key}."))
        elif key not in FREE and not key.startswith("max_"):
            pairs.append((prefix + key, theirs, ours))
    return pairs
