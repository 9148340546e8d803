"""Trains a helper: a small adapter for one job, on prompts and labels that a builder made.

accelerate launch training/train_helper.py --config configs/helper_smollm2.yaml [key=value ...]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from models.formats.records import HelperTask, InstructionSample
from models.helper import Helper, HelperConfig
from training.recipe.objective import ObjectiveName
from training.recipe.recipe import Recipe, shared_values
from training.recipe.settings import ConfigError, T2TSettings
from training.run.command import run_command
from training.run.scores import score_helper

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# All tasks train the same adapter, so that one of them stands for any.
ANY_TASK: HelperTask = "decompose"


class HelperRecipe(Recipe[T2TSettings, InstructionSample]):
    """An adapter on a causal backbone, for the one task of its samples."""

    script = "train_helper.py"
    settings_type = T2TSettings
    record_type = InstructionSample
    component = Helper
    score = staticmethod(score_helper)

    def config(self, settings: T2TSettings, records: Sequence[InstructionSample]) -> HelperConfig:
        """Return the recipe's helper in the words of models/.

        Raises:
            ConfigError: samples of several tasks.
        """
        task = only_task(records) if records else ANY_TASK
        return HelperConfig(**shared_values(HelperConfig, settings.model), task=task)

    def check(self, settings: T2TSettings) -> None:
        """Refuse outcomes without validation samples, whose task is the helper's.

        Raises:
            ConfigError: there are none.
        """
        if settings.objective.kind is not ObjectiveName.imitation and not settings.data.dev:
            raise ConfigError("objective.kind: name samples of the helper's task in data.dev")

    def adapter_name(self, config: HelperConfig) -> str:
        """Return what trajectories call the helper: its task."""
        return config.task

    def untrained(
        self, settings: T2TSettings, config: Any, backbone: PreTrainedModel | None = None
    ) -> Helper:
        """Return an untrained helper.

        Raises:
            ConfigError: a backbone or a rank that no adapter can be made for.
        """
        try:
            return super().untrained(settings, config, backbone)
        except ValueError as error:
            raise ConfigError(f"model: {error}") from error


def only_task(records: Sequence[InstructionSample]) -> HelperTask:
    """Return the task that all records are for.

    Raises:
        ConfigError: samples of several tasks, with one sample of each.
    """
    first = {record.task: record.id for record in reversed(records)}
    if len(first) > 1:
        listed = ", ".join(f"{task} ({sample_id})" for task, sample_id in sorted(first.items()))
        raise ConfigError(
            f"data.train and data.dev hold samples of {len(first)} tasks: {listed}. A helper has "
            "one: build a set for each"
        )
    return next(iter(first))


RECIPE = HelperRecipe()


def main() -> None:
    """Run the command."""
    run_command(RECIPE, str(__doc__))


if __name__ == "__main__":
    main()
