"""An audited set beside the paper's own: RAS App. C.4, Table 4."""

from collections.abc import Mapping
from typing import Any

PAPER_LABELS = {"[SUFFICIENT]": 45_722, "[SUBQ]": 71_676, "[NO_RETRIEVAL]": 12_504}
PAPER = {
    "plan": {
        "queries": "129,902",
        "input tokens (mean, median, max)": "338, 301, 1,910",
        "output tokens (mean, median, max)": "13, 12, 62",
        "subqueries (min, mean, max)": "0, 0.8, 5",
        "[SUBQ] tokens (min, mean, max)": "6, 18.3, 62",
        "nodes (mean, median, max)": "11.6, 11, 56",
        "edges (mean, median, max)": "21.2, 20, 116",
    },
    "answer": {
        "queries": "78,164",
        "input tokens (mean, median, max)": "475, 466, 2,214",
        "output tokens (mean, median, max)": "13, 4, 2,332",
        "subqueries (min, mean, max)": "0, 1.2, 6",
        "nodes (mean, median, max)": "11.7, 11, 84",
        "edges (mean, median, max)": "21.3, 20, 160",
    },
}
"""RAS Table 4, "Statistics of our constructed HotpotQA-SUBQ dataset": the planning and the
answering column. The appendix does not say whose tokens it counts."""

_FIGURES = {
    "input tokens (mean, median, max)": "prompt",
    "output tokens (mean, median, max)": "label",
    "subqueries (min, mean, max)": "subqueries",
    "[SUBQ] tokens (min, mean, max)": "subquery",
    "nodes (mean, median, max)": "nodes",
    "edges (mean, median, max)": "edges",
}


def beside_paper(
    figures: Mapping[tuple[str, str], Mapping[str, float]], labels: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Rows of Table 4: what, the paper's figure and this set's, for plans and for answers.

    figures: distributions by task and name, as `Spread.figures` gives them. labels: plans by kind.
    """
    rows = []
    for task, paper in PAPER.items():
        for what, published in paper.items():
            here = _here(task, what, figures)
            rows.append({"task": task, "what": what, "paper": published, "here": here})
    shares = (_shares(PAPER_LABELS), _shares({kind: labels.get(kind, 0) for kind in PAPER_LABELS}))
    rows += [
        {"task": "plan", "what": kind, "paper": shares[0][kind], "here": shares[1][kind]}
        for kind in PAPER_LABELS
    ]
    return rows


def _here(task: str, what: str, figures: Mapping[tuple[str, str], Mapping[str, float]]) -> str:
    found = figures.get((task, _FIGURES.get(what, "prompt")), {})
    if what == "queries":
        return f"{found.get('count', 0):,}"
    names = what[what.index("(") + 1 : -1].split(", ")
    return ", ".join(f"{found[name]:,g}" for name in names) if found else "–"


def _shares(labels: Mapping[str, int]) -> dict[str, str]:
    total = sum(labels.values()) or 1
    return {kind: f"{count:,} ({count / total:.0%})" for kind, count in labels.items()}
