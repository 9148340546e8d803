"""What an evaluation came to, as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.report import print_table
from inference.gold import mean_by_type
from inference.scored_traces import COSTS


def show(results: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the scores, by question type and over all, and where questions were lost.

    rows: the scored traces that `results` sum up.
    """
    types = [row["type"] for row in rows]
    by_type = mean_by_type(types, [row["f1"] for row in rows])
    em_by_type = mean_by_type(types, [row["em"] for row in rows])
    table: list[list[Any]] = [
        [name, count, em_by_type[name][1], f1, "", ""] for name, (count, f1) in by_type.items()
    ]
    intervals = ["{:.3f} to {:.3f}".format(*results[name]) for name in ("em_ci95", "f1_ci95")]
    table.append(["all", results["n"], results["em"], results["f1"], *intervals])
    columns = ["type", "questions", "EM", "F1", "EM, 95 %", "F1, 95 %"]
    print_table(f"{results['loop']} on {results['dataset']}", columns, table)
    print_table(
        "Where questions ended", list(results["stages"]), [list(results["stages"].values())]
    )
    costs = (*COSTS, "seconds", "errors")
    print_table("Cost", list(costs), [[results[name] for name in costs]])


def show_shard(card: Mapping[str, Any]) -> None:
    """Print what a shard of an evaluation answered; a part of the questions has no scores."""
    columns = ["questions", "of", "seconds", "errors"]
    row = [len(card["places"]), card["questions"]["all"], card["seconds"], card["errors"]]
    print_table(f"Shard {card['shard']}/{card['of']}", columns, [row])
