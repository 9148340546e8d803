"""The components of a loop that an improvement trains: one, or two that draw together."""

from collections.abc import Sequence
from dataclasses import dataclass

from training.recipe.settings import ConfigError
from training.rounds.settings import ImproveSettings

SCRIPTS = {"ras": "train_ras.py", "t2t": "train_t2t.py"}
OPTIONS = {"ras": "--ras", "t2t": "--t2t"}


@dataclass(frozen=True)
class Learner:
    """A component that draws and learns.

    option: of the commands that names it. folder: of its training in a round.
    """

    name: str
    option: str
    start_from: str
    recipe: str
    values: Sequence[str]
    folder: str

    @property
    def script(self) -> str:
        """Return the training's script."""
        return SCRIPTS.get(self.name, "train_helper.py")


def _option(component: str, said: str) -> str:
    return said or OPTIONS.get(component, "")


def learners_of(settings: ImproveSettings) -> list[Learner]:
    """Return what learns, one component or two. Raises ConfigError for what is not said of one."""
    learning, beside = settings.learning, settings.beside
    first = Learner(
        settings.component, _option(settings.component, settings.option),
        settings.start_from, learning.recipe, learning.values, "train",
    )  # fmt: skip
    found = [first]
    if beside.component:
        if beside.component == first.name:
            raise ConfigError(
                f"beside.component={first.name}: that is the first component; name another"
            )
        for name in ("start_from", "recipe"):
            if not getattr(beside, name):
                raise ConfigError(f"beside.{name}: say it of {beside.component}, which learns too")
        second = Learner(
            beside.component, _option(beside.component, beside.option),
            beside.start_from, beside.recipe, beside.values, f"train_{beside.component}",
        )  # fmt: skip
        found.append(second)
    for learner in found:
        if not learner.option:
            raise ConfigError(
                f"component={learner.name}: say in `option` how commands name it, such as "
                "--passage-reader"
            )
    return found
