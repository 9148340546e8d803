"""The recipe of an improvement by rounds: one typed field a YAML key."""

# `setting` returns a dataclass field, made anew for each class that uses it.
# ruff: noqa: RUF009

from dataclasses import dataclass, field

from omegaconf import MISSING

from training.recipe.fields import setting


@dataclass
class RolloutSettings:
    """The trajectories of a round."""

    questions: str = setting(MISSING, "training questions, JSON Lines; each round takes the next")
    corpus: str = setting("", "passages, JSON Lines; empty: for a loop that searches none")
    questions_a_round: int = setting(600, "questions of a round; from the start again at the end")
    group: int = setting(4, "trajectories a question")
    temperature: float = setting(1.0, "that tokens are drawn at")
    weights: list[str] = setting([], "PART=WEIGHT of the reward, as of inference/rollout.py")
    options: list[str] = setting([], "further options of inference/rollout.py")


@dataclass
class LearningSettings:
    """The training of a round."""

    recipe: str = setting(MISSING, "recipe of the component, a YAML file")
    values: list[str] = setting(
        ["objective.kind=policy"], "key=value that win over the recipe, objective.kind among them"
    )
    launcher: list[str] = setting(
        [], "words before the training script, such as accelerate, launch; empty: python"
    )


@dataclass
class BesideSettings:
    """A second component of the loop, which draws, learns and is kept together with the first."""

    component: str = setting("", "what it is, as of the first; empty: the first learns alone")
    start_from: str = setting("", "component folder that the first round starts from")
    option: str = setting("", "option of the commands that names it; empty: --ras, --t2t")
    recipe: str = setting("", "recipe of the component, a YAML file")
    values: list[str] = setting(
        ["objective.kind=policy"], "key=value that win over the recipe, objective.kind among them"
    )


@dataclass
class MeasureSettings:
    """The development questions that decide whether a round's component is kept."""

    questions: str = setting(MISSING, "development questions, JSON Lines")
    corpus: str = setting("", "their passages, JSON Lines; empty: for a loop that searches none")
    figure: str = setting("f1", "what decides, of an evaluation's results: f1 or em")
    least_gain: float = setting(0.0, "by how much the figure must rise for a component to be kept")
    options: list[str] = setting([], "further options of inference/evaluate.py")


@dataclass
class ImproveSettings:
    """Rounds of rolling out, training and measuring."""

    output_dir: str = setting(MISSING, "rounds, their table and a link to the best component")
    component: str = setting("ras", "what draws and learns: ras, t2t, or the task of a helper")
    start_from: str = setting(MISSING, "component folder that the first round starts from")
    option: str = setting("", "option of the commands that names it; empty: --ras, --t2t")
    rounds: int = setting(3, "rounds")
    seed: int = setting(0, "of the draws; each round adds its number")
    loop: list[str] = setting(
        ["--loop", "ras"], "options of the loop and its engine, of rollout and evaluation"
    )
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    learning: LearningSettings = field(default_factory=LearningSettings)
    beside: BesideSettings = field(default_factory=BesideSettings)
    measure: MeasureSettings = field(default_factory=MeasureSettings)
