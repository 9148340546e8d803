"""A recipe as a declaration: its settings, its records, its module and its scores.

What is the same for all recipes is done once: the data by `encode_data` here, which an estimate
uses as well as a training, and the rest by `training/run/`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from torch import nn

from models.files.backbone import load_tokenizer
from models.files.checkpoint import component_fingerprint
from models.files.text_table import TextTable
from models.parts.adapters import ALL_LINEAR
from models.parts.objective import OutcomeLoss
from training.recipe.collator import Collator
from training.recipe.drawn import Drawn, DrawnCall, read_drawn
from training.recipe.drawn_samples import calls_of, drawn_samples
from training.recipe.objective import ObjectiveName, ObjectiveSettings, kind_of
from training.recipe.samples import (
    SampleSet,
    SourceT,
    TrainingSample,
    choose,
    encode_samples,
    passage_samples,
    read_samples,
)
from training.recipe.settings import ConfigError, ModelSettings, T2TSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)
SettingsT = TypeVar("SettingsT", bound=T2TSettings)
Score = Callable[[Sequence[str], Sequence[SourceT]], dict[str, float]]


class Recipe(ABC, Generic[SettingsT, SourceT]):
    """What differs between the recipes.

    Attributes:
        script: the command, with whose name its errors begin.
        settings_type: the keys of its file.
        record_type: a line of its data.
        component: the class of what is trained; reads a folder by `from_pretrained`.
        score: figures of what the module wrote for some records.
    """

    script: str
    settings_type: type[SettingsT]
    record_type: type[Any]
    component: Any
    score: Score[SourceT]

    def check(self, settings: SettingsT) -> None:
        """Refuse what cannot be trained. Raises ConfigError."""

    def adapter_names(self, config: Any) -> tuple[str, ...]:
        """Return what trajectories call the component of a config; none: it draws in no loop."""
        return ()

    def encode_drawn(self, config: Any, drawn: DrawnCall) -> Any:
        """Return a drawn call as the processor returns a record: its ids as they were.

        Raises OutcomeError for one that a component of this config does not read so.
        """
        call = drawn.call
        prompt = call.input_ids or []
        input_ids = [*prompt, *call.token_ids]
        return {"sample_id": drawn.id, "input_ids": input_ids, "labels_start": len(prompt)}

    def read(self, settings: SettingsT, path: str, limit: int) -> tuple[list[SourceT], int]:
        """Return at most `limit` records of a file (0: all) and the number of those skipped.

        Raises what `read_samples` raises.
        """
        skip_bad = settings.data.skip_bad_records
        return read_samples(path, self.record_type, limit, settings.train.seed, skip_bad)

    @abstractmethod
    def config(self, settings: SettingsT, records: Sequence[SourceT]) -> Any:
        """Return the recipe's model in the words of models/; without records, any of its size.

        Raises ConfigError where settings or records do not fit together.
        """

    def warn_of_cuts(self, settings: SettingsT, encoded: Sequence[Any]) -> None:
        """Log how many of the encoded records lost a part that the limits have no room for."""
        shortened = sum(item["dropped_items"] > 0 for item in encoded)
        if shortened:
            logger.warning(
                "%d of %d labels are longer than model.max_output_tokens=%d and lost whole items "
                "at their end",
                shortened,
                len(encoded),
                settings.model.max_output_tokens,
            )

    def text_table(self, settings: SettingsT, encoded: Sequence[Any]) -> TextTable | None:
        """Return the features of all texts that the samples' graphs hold; None without graphs."""
        return None

    def samples(self, encoded: Sequence[Any], table: TextTable | None) -> list[TrainingSample]:
        """Return encoded records as arrays; with a table, their graphs as rows of it."""
        return passage_samples(encoded)

    def collator(
        self, tokenizer: PreTrainedTokenizerBase, features: npt.NDArray[np.floating] | None
    ) -> Any:
        """Return what makes batches of samples; features: a table that graphs point into."""
        return Collator(int(tokenizer.pad_token_id), features)

    def untrained(
        self, settings: SettingsT, config: Any, backbone: PreTrainedModel | None = None
    ) -> Any:
        """Return an untrained module on the given backbone, or on the one that `config` names.

        Raises ConfigError for a backbone or sizes that no module can be made for.
        """
        return self.component.from_config(config, backbone, settings.model.dtype.value)

    def build(self, settings: SettingsT, backbone: PreTrainedModel) -> nn.Module:
        """Return an untrained module on a backbone that may hold shapes alone.

        Raises ConfigError where the recipe cannot be trained.
        """
        self.check(settings)
        return self.untrained(settings, self.config(settings, ()), backbone)

    def stored_dtype(self, settings: SettingsT) -> str:
        """Return the dtype in which the backbone of a stored component is loaded."""
        return settings.model.dtype.value


@dataclass(frozen=True)
class EncodedData(Generic[SourceT]):
    """A recipe's data, ready to train on.

    Attributes:
        config: the recipe's model in the words of models/.
        dev: None where the recipe has no validation set.
        features: [texts, d] table that the samples' graphs point into; None without graphs.
        outcome_loss: what is made of drawn samples; None where labels are learnt.
    """

    config: Any
    tokenizer: PreTrainedTokenizerBase
    train: SampleSet[Any]
    dev: SampleSet[SourceT] | None
    features: npt.NDArray[np.floating] | None
    outcome_loss: OutcomeLoss | None = None


def encode_data(
    recipe: Recipe[SettingsT, SourceT], settings: SettingsT, lengths_only: bool = False
) -> EncodedData[SourceT]:
    """Read and encode a recipe's data.

    Args:
        lengths_only: leave out the validation set and the features of graphs, which say nothing
            about how long the samples are.

    Raises:
        ConfigError: the records do not fit the recipe.
        OutcomeError: trajectories that nothing can be learnt from.
        InputLimitError: `model.max_input_tokens` has no room for a passage.
        CutLabelsError: labels do not fit and are not to be skipped.
        RecordError, FileNotFoundError, EmptyDataError: a data file cannot be used.
    """
    data, objective = settings.data, settings.objective
    from_labels = objective.kind is ObjectiveName.imitation
    tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
    records, bad = _read(
        recipe, settings, data.train if from_labels else "", data.max_train_samples
    )
    dev_path = "" if lengths_only and from_labels else data.dev
    dev_records, _ = _read(recipe, settings, dev_path, data.max_dev_samples)
    config = recipe.config(settings, [*records, *dev_records])
    processor = config.processor(tokenizer)
    kept, encoded, cut = _encode(recipe, settings, processor, records)
    dev_kept, dev_encoded, dev_cut = _encode(recipe, settings, processor, dev_records)
    drawn = None if from_labels else drawn_of(recipe, settings, config)
    calls = [call for item in drawn.items for call in calls_of(item)] if drawn else []
    encoded += [recipe.encode_drawn(config, call) for call in calls]
    table = None if lengths_only else recipe.text_table(settings, [*encoded, *dev_encoded])
    samples = recipe.samples(encoded, table)
    train = (
        SampleSet(list(drawn.items), drawn_samples(drawn.items, samples), [])
        if drawn
        else SampleSet(kept, samples, cut, bad)
    )
    dev = SampleSet(dev_kept, recipe.samples(dev_encoded, table), dev_cut)
    return EncodedData(
        config,
        tokenizer,
        train,
        dev if dev_kept else None,
        table.features if table is not None else None,
        outcome_loss(objective, drawn.temperature) if drawn else None,
    )


def drawn_of(recipe: Recipe[SettingsT, Any], settings: SettingsT, config: Any) -> Drawn:
    """Return what the recipe's trajectories give to learn from.

    Raises:
        ConfigError: no component to go on from, or one that draws in no loop.
        What `read_drawn` raises.
    """
    kind, start = kind_of(settings.objective), settings.model.start_from
    names = recipe.adapter_names(config)
    if not names:
        raise ConfigError(f"objective.kind={kind}: {recipe.script} learns by imitation alone")
    if not start:
        raise ConfigError(
            f"objective.kind={kind}: name the component that drew in model.start_from; its "
            "outcomes are learnt from"
        )
    data, version = settings.data, component_fingerprint(start)
    drawn = read_drawn(data.train, kind, names, version, settings.objective.least_reward)
    limit = data.max_train_samples
    if 0 < limit < len(drawn.items):
        rows = choose(len(drawn.items), limit, settings.train.seed)
        drawn = drawn.only(rows)
    return drawn


def outcome_loss(objective: ObjectiveSettings, temperature: float) -> OutcomeLoss:
    """Return the loss that a recipe's objective names."""
    return OutcomeLoss(
        kind_of(objective), temperature, objective.clip, objective.kl_weight, objective.beta
    )


def shared_values(config_type: type[Any], *groups: Any) -> dict[str, Any]:
    """Return what groups of a recipe say of a component's settings, by the settings' names.

    The keys of `model` have names of their own there for the revision and the adapter.
    """
    said: dict[str, Any] = {}
    for group in groups:
        said |= vars(group)
        if isinstance(group, ModelSettings):
            said |= {f"lora_{key}": value for key, value in vars(group.lora).items()}
            # PEFT's form of the list: the word alone, or names of modules.
            targets = group.lora.targets
            said["lora_targets"] = ALL_LINEAR if targets == [ALL_LINEAR] else targets
            said["backbone_revision"] = group.revision
    names = {item.name for item in fields(config_type)}
    plain = {key: value.value if isinstance(value, Enum) else value for key, value in said.items()}
    return {key: value for key, value in plain.items() if key in names}


def _read(
    recipe: Recipe[SettingsT, SourceT], settings: SettingsT, path: str, limit: int
) -> tuple[list[SourceT], int]:
    return recipe.read(settings, path, limit) if path else ([], 0)


def _encode(
    recipe: Recipe[SettingsT, SourceT],
    settings: SettingsT,
    processor: Any,
    records: Sequence[SourceT],
) -> tuple[list[SourceT], list[Any], list[str]]:
    from accelerate import PartialState

    if not records:
        return [], [], []
    skip_cut, is_main = settings.data.skip_cut_labels, PartialState().is_main_process
    kept, encoded, cut = encode_samples(records, processor.encode_sample, skip_cut, is_main)
    recipe.warn_of_cuts(settings, encoded)
    return kept, encoded, cut
