"""A comparison of runs as rows of a table, as Markdown, and as accuracy against cost."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.significance import UNTYPED

COLUMNS = (
    "run",
    "EM",
    "F1",
    "F1 against it",
    "p",
    "p, Holm",
    "recall",
    "calls",
    "weighted tokens",
    "seconds",
    "indexing calls",
    "indexing tokens",
    "errors",
)
TYPE_COLUMNS = (
    "type", "questions", "run", "EM", "F1", "EM against it", "F1 against it", "p of F1", "p, Holm"
)  # fmt: skip
NOTE = (
    "EM, F1, their difference and recall in percent with 95 % intervals; calls, weighted tokens "
    "(input + 4 × output) and seconds are means a question, indexing is the whole index, its "
    "tokens weighted alike."
)


def rows_of(group: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each run, a cell for each of `COLUMNS`; "-" for what a run does not tell."""
    return [_row(run) for run in group["runs"]]


def has_types(group: Mapping[str, Any]) -> bool:
    """Return whether any question of a data set has a type."""
    return list(group["types"]) != [UNTYPED]


def type_rows_of(group: Mapping[str, Any]) -> list[list[str]]:
    """Return one row for each question type and run, a cell for each of `TYPE_COLUMNS`."""
    return [
        _type_row(name, run["label"], run["by_type"][name])
        for name in group["types"]
        for run in group["runs"]
    ]


def markdown(compared: Sequence[Mapping[str, Any]]) -> str:
    """Return one Markdown table a data set, one of its question types, and what the columns are."""
    parts = []
    for group in compared:
        head = f"{group['dataset']}, {group['n']} questions, tested against {group['baseline']}:"
        parts.append(_table(head, COLUMNS, rows_of(group)))
        if has_types(group):
            head = f"{group['dataset']} by question type:"
            parts.append(_table(head, TYPE_COLUMNS, type_rows_of(group)))
    return "\n\n".join([*parts, NOTE]) + "\n"


def _table(head: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    align = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join([head, "", *(_line(cells) for cells in (columns, align, *rows))])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _row(run: Mapping[str, Any]) -> list[str]:
    f1 = run.get("against_baseline", {}).get("f1")
    indexing = run["indexing"] or {}
    return [
        run["label"],
        _percent(run["em"], "mean"),
        _percent(run["f1"], "mean"),
        _percent(f1, "difference", sign="+") if f1 else "-",
        f"{f1['p_value']:.4f}" if f1 else "-",
        f"{f1['p_holm']:.4f}" if f1 else "-",
        _number(run["recall"], 1, 100),
        _number(run["llm_calls"], 2),
        _number(run["weighted_tokens"], 0),
        _number(run["seconds"], 2),
        _number(indexing.get("llm_calls"), 0),
        _number(indexing.get("weighted_tokens"), 0),
        str(run["errors"]),
    ]


def _type_row(name: str, label: str, own: Mapping[str, Any]) -> list[str]:
    em, f1 = (own.get("against_baseline", {}).get(metric) for metric in ("em", "f1"))
    return [
        name,
        str(own["n"]),
        label,
        _number(own["em"], 1, 100),
        _number(own["f1"], 1, 100),
        _percent(em, "difference", sign="+") if em else "-",
        _percent(f1, "difference", sign="+") if f1 else "-",
        f"{f1['p_value']:.4f}" if f1 else "-",
        f"{f1['p_holm']:.4f}" if f1 else "-",
    ]


def _percent(values: Mapping[str, float], name: str, sign: str = "") -> str:
    middle, low, high = (100 * values[key] for key in (name, "low", "high"))
    return f"{middle:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def _number(value: float | None, digits: int, times: float = 1) -> str:
    return "-" if value is None else f"{times * value:,.{digits}f}"


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
