"""Trains a helper: a small adapter for the jobs whose prompts and labels a builder made.

accelerate launch training/train_helper.py --config configs/helper_smollm2.yaml [key=value ...]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, get_args

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
    """An adapter on a causal backbone, for the tasks of its samples."""

    script = "train_helper.py"
    settings_type = T2TSettings
    record_type = InstructionSample
    component = Helper
    score = staticmethod(score_helper)

    def config(self, settings: T2TSettings, records: Sequence[InstructionSample]) -> HelperConfig:
        """Return the recipe's helper in the words of models/."""
        tasks = tasks_of(records) or (ANY_TASK,)
        return HelperConfig(**shared_values(HelperConfig, settings.model), tasks=tasks)

    def check(self, settings: T2TSettings) -> None:
        """Refuse outcomes without validation samples, whose task is the helper's.

        Raises:
            ConfigError: there are none.
        """
        if settings.objective.kind is not ObjectiveName.imitation and not settings.data.dev:
            raise ConfigError("objective.kind: name samples of the helper's task in data.dev")

    def adapter_names(self, config: HelperConfig) -> tuple[str, ...]:
        """Return what trajectories call the helper: its tasks."""
        return config.tasks

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


def tasks_of(records: Iterable[InstructionSample]) -> tuple[HelperTask, ...]:
    """Return the tasks that records are for, in the order of their definition."""
    found = {record.task for record in records}
    return tuple(task for task in get_args(HelperTask) if task in found)


RECIPE = HelperRecipe()


def main() -> None:
    """Run the command."""
    run_command(RECIPE, str(__doc__))


if __name__ == "__main__":
    main()
