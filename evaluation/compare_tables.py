"""A comparison of runs as rows of a table and as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

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
NOTE = (
    "EM, F1, their difference and recall in percent with 95 % intervals; calls, weighted tokens "
    "(input + 4 × output) and seconds are means a question, indexing is the whole index, its "
    "tokens weighted alike."
)


def rows_of(group: Mapping[str, Any]) -> list[list[str]]:
    """One row a run, a cell for each of `COLUMNS`; "-" for what a run does not tell."""
    return [_row(run) for run in group["runs"]]


def markdown(compared: Sequence[Mapping[str, Any]]) -> str:
    """One Markdown table a data set, and what the columns are."""
    parts = []
    for group in compared:
        head = f"{group['dataset']}, {group['n']} questions, tested against {group['baseline']}:"
        align = ["---", *["---:"] * (len(COLUMNS) - 1)]
        lines = [_line(cells) for cells in (COLUMNS, align, *rows_of(group))]
        parts.append("\n".join([head, "", *lines]))
    return "\n\n".join([*parts, NOTE]) + "\n"


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


def _percent(values: Mapping[str, float], name: str, sign: str = "") -> str:
    middle, low, high = (100 * values[key] for key in (name, "low", "high"))
    return f"{middle:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def _number(value: float | None, digits: int, times: float = 1) -> str:
    return "-" if value is None else f"{times * value:,.{digits}f}"
