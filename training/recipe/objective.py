"""The keys of a recipe that say what is learnt from: labels, or trajectories and their rewards."""

# `setting` returns a dataclass field, made anew for each class that uses it.
# ruff: noqa: RUF009

from dataclasses import dataclass
from enum import Enum

from models.parts.objective import ObjectiveKind
from training.recipe.fields import setting


class ObjectiveName(Enum):
    """What a training raises: the likelihood of labels, or what a reward makes of drawn tokens."""

    imitation = "imitation"
    best_of = "best_of"
    policy = "policy"
    preference = "preference"


@dataclass
class ObjectiveSettings:
    """What is learnt from; all but imitation read data.train as trajectories (docs/outcomes.md)."""

    kind: ObjectiveName = setting(
        ObjectiveName.imitation,
        "imitation of labels, or of rollouts: best_of, policy, preference",
    )
    least_reward: float = setting(0.0, "best_of: of the trajectories that are learnt from")
    clip: float = setting(0.2, "policy: how far from 1 a token's ratio counts")
    kl_weight: float = setting(
        0.05, "policy: divergence to the component that drew, on trajectories below the mean"
    )
    beta: float = setting(0.1, "preference: of DPO")
    most_lost: float = setting(
        0.0, "stop where rewarded tokens have lost this much log-probability on average; 0: never"
    )


def kind_of(objective: ObjectiveSettings) -> ObjectiveKind:
    """Return the objective in the words of models/."""
    return objective.kind.value
