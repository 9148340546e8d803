"""What an evaluation came to, as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.by_type import COLUMNS, places_by_type, type_rows
from evaluation.error_analysis import count_stages
from evaluation.report import print_table
from inference.scored_traces import COSTS


def show(results: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the scores and where questions were lost, by question type and over all, and the cost.

    rows: the scored traces that `results` sum up.
    """
    table = [[*row, "", ""] for row in type_rows(results["by_type"])]
    intervals = ["{:.3f} to {:.3f}".format(*results[name]) for name in ("em_ci95", "f1_ci95")]
    table.append(["all", results["n"], results["em"], results["f1"], *intervals])
    columns = [*COLUMNS, "EM, 95 %", "F1, 95 %"]
    print_table(f"{results['loop']} on {results['dataset']}", columns, table)
    stages = [
        [name, *count_stages(rows[place]["stage"] for place in own).values()]
        for name, own in places_by_type([row["type"] for row in rows]).items()
    ]
    stages.append(["all", *results["stages"].values()])
    print_table("Where questions ended", ["type", *results["stages"]], stages)
    costs = (*COSTS, "seconds", "errors")
    print_table("Cost", list(costs), [[results[name] for name in costs]])


def show_shard(card: Mapping[str, Any]) -> None:
    """Print what a shard of an evaluation answered; a part of the questions has no scores."""
    columns = ["questions", "of", "seconds", "errors"]
    row = [len(card["places"]), card["questions"]["all"], card["seconds"], card["errors"]]
    print_table(f"Shard {card['shard']}/{card['of']}", columns, [row])
