"""Accuracy against cost, one point a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def draw(compared: Sequence[Mapping[str, Any]], out: Path) -> None:
    """F1 with its interval over the mean weighted tokens of a question, one panel a data set.

    A run without tokens is left out. The axis of tokens is logarithmic.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(compared), 4.2), layout="constrained")
    for number, group in enumerate(compared, start=1):
        axes = figure.add_subplot(1, len(compared), number)
        for run in group["runs"]:
            if run["weighted_tokens"]:
                _point(axes, run)
        axes.set_xscale("log")
        axes.margins(x=0.15)
        axes.set_title(f"{group['dataset']}, {group['n']} questions")
        axes.set_xlabel("weighted tokens a question (input + 4 × output)")
        axes.set_ylabel("F1, percent, 95 % interval")
        axes.grid(alpha=0.3)
    figure.savefig(out, dpi=150)


def _point(axes: Any, run: Mapping[str, Any]) -> None:
    mean, low, high = (100 * run["f1"][name] for name in ("mean", "low", "high"))
    x = run["weighted_tokens"]
    axes.errorbar(
        x, mean, yerr=[[max(0.0, mean - low)], [max(0.0, high - mean)]], fmt="o", capsize=3
    )
    axes.annotate(run["label"], (x, mean), textcoords="offset points", xytext=(6, 4))
