"""Going on from a finished component: its weights, under this recipe's data and schedule."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from training.recipe.settings import ConfigError

# What may differ between the component and the recipe: it holds no weight.
FREE = (
    "backbone_revision",
    "compare_dates",
    "lora_dropout",
    "dropout",
    "graph_position",
    "output_dim",
)


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
