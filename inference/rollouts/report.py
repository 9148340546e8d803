"""What a rollout came to, as tables."""

from collections.abc import Mapping
from typing import Any

from common.tables import print_table
from evaluation.rewards import PARTS


def print_outcome(title: str, results: Mapping[str, Any]) -> None:
    """Print the counts and means of trajectories, and their reward part by part.

    results: of `summarise`, with the number of `questions`, and of `errors` where there were any.
    """
    names = ("questions", "trajectories", "em", "f1", "best_f1", "reward", "mixed_groups", "errors")
    shown = [name for name in names if name in results]
    print_table(title, shown, [[results[name] for name in shown]])
    rows = [[n, results["reward_parts"][n], results["without"][n]] for n in PARTS]
    print_table("Parts of the reward", ["part", "mean", "trajectories without"], rows)
    print_table("Calls", ["source", "calls"], [[*each] for each in results["calls"].items()])
