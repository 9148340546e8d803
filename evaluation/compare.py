"""Set evaluation runs side by side: accuracy with paired tests, and what it costs.

python evaluation/compare.py runs/single runs/ras [LABEL=]runs/t2rag ... --picture loops.png

Runs are grouped by data set. In each, every other run is tested against the baseline over the same
questions (paired bootstrap; the p-values of several runs are adjusted by Holm's method), over all
of them and by question type.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common.commands import command_parser, one_line_errors
from common.tables import emit_json, print_table
from evaluation.runs import METRICS, Run, TraceError, check_alike, read_run
from evaluation.significance import (
    DEFAULT_RESAMPLES,
    UNTYPED,
    bootstrap_interval,
    holm,
    paired_bootstrap,
    places_by_type,
)
from evaluation.text import check_mauve, mauve_score

MEANS = ("llm_calls", "weighted_tokens", "searches", "recall", "seconds")
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


def compare_runs(
    runs: Sequence[Run],
    baseline: str | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Return all figures of runs over one data set.

    baseline: the label of the run that the others are tested against; None is the first. Scores
    and recall are in 0 to 1; calls, weighted tokens (input + 4 × output, T²RAG App. B.4) and
    seconds are means a question. `against_baseline` holds the paired difference (run minus
    baseline) with its interval, its p-value and that p-value adjusted over the data set's runs.
    `by_type` has the same of each question type, its p-values adjusted over all types and runs.

    Raises TraceError where the runs cannot be compared, or none is called `baseline`.
    """
    check_alike(runs)
    labels = [run.label for run in runs]
    if baseline is not None and baseline not in labels:
        raise TraceError(
            f"no run over {runs[0].dataset} is called {baseline!r}: give --baseline as one of "
            f"{', '.join(labels)}"
        )
    base = runs[labels.index(baseline) if baseline else 0]
    questions = list(base.scores)
    places = places_by_type([score.type for score in base.scores.values()])
    types = {name: [questions[place] for place in own] for name, own in places.items()}
    figures = [_figures(run, resamples, seed) for run in runs]
    for run, found in zip(runs, figures, strict=True):
        found["by_type"] = {n: {"n": len(own), **_means(run, own)} for n, own in types.items()}
    others = [(run, found) for run, found in zip(runs, figures, strict=True) if run is not base]
    whole = [(found, run, questions) for run, found in others]
    parts = [(found["by_type"][n], run, own) for run, found in others for n, own in types.items()]
    for compared in (whole, parts):
        _test(base, compared, resamples, seed)
    return {
        "dataset": base.dataset,
        "n": len(base.scores),
        "types": {name: len(own) for name, own in types.items()},
        "baseline": base.label,
        "runs": figures,
    }


def _figures(run: Run, resamples: int, seed: int) -> dict[str, Any]:
    intervals = {
        metric: asdict(bootstrap_interval(run.values(metric), resamples, seed=seed))
        for metric in METRICS
    }
    means = {
        name: sum(values) / len(values) if (values := run.values(name)) else None for name in MEANS
    }
    return {
        "label": run.label,
        "loop": run.results["loop"],
        "folder": str(run.folder),
        **intervals,
        **means,
        "errors": run.failed,
        "indexing": run.results.get("indexing"),
    }


def _means(run: Run, questions: Sequence[str]) -> dict[str, float]:
    scores = [run.scores[question] for question in questions]
    return {metric: sum(getattr(s, metric) for s in scores) / len(scores) for metric in METRICS}


def _test(
    base: Run,
    compared: Sequence[tuple[dict[str, Any], Run, Sequence[str]]],
    resamples: int,
    seed: int,
) -> None:
    """Put `against_baseline` into the figures of runs over some questions, adjusted together."""
    for metric in METRICS:
        pairs = []
        for _, run, questions in compared:
            first, second = (
                [getattr(one.scores[question], metric) for question in questions]
                for one in (base, run)
            )
            pairs.append(asdict(paired_bootstrap(first, second, resamples, seed=seed)))
        adjusted = holm([pair["p_value"] for pair in pairs])
        for (figures, _, _), pair, p_holm in zip(compared, pairs, adjusted, strict=True):
            figures.setdefault("against_baseline", {})[metric] = {**pair, "p_holm": p_holm}


def compare_all(
    runs: Sequence[Run],
    baseline: str | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """`compare_runs` for each data set, in the order in which they first come."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.dataset, []).append(run)
    return [compare_runs(group, baseline, resamples, seed) for group in groups.values()]


def add_mauve(
    compared: Sequence[Mapping[str, Any]], runs: Sequence[Run], model: Path
) -> list[list[Any]]:
    """Put MAUVE of the answers against the first gold ones into each run's figures.

    Returns a row a run. Raises what `mauve_score` raises.
    """
    figures = {run["folder"]: run for group in compared for run in group["runs"]}
    for run in runs:
        scored = [score for score in run.scores.values() if score.answers]
        golds = [score.answers[0] for score in scored]
        own = mauve_score([score.answer for score in scored], golds, model)
        figures[str(run.folder)]["mauve"] = own
    return [[run.dataset, run.label, figures[str(run.folder)]["mauve"]] for run in runs]


def show(compared: Sequence[Mapping[str, Any]]) -> None:
    """Print one table a data set, and one of its question types where it has some."""
    for group in compared:
        title = f"{group['dataset']}: {group['n']} questions, tested against {group['baseline']}"
        print_table(title, COLUMNS, rows_of(group))
        if has_types(group):
            print_table(f"{group['dataset']} by question type", TYPE_COLUMNS, type_rows_of(group))


@one_line_errors(TraceError, OSError)
def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if options.resamples < 1:
        parser.error(f"--resamples must be at least 1, not {options.resamples}")
    if options.picture and options.picture.suffix not in (".png", ".svg", ".pdf"):
        parser.error(f"--picture {options.picture}: end its name in .png, .svg or .pdf")
    if options.mauve:
        check_mauve(options.mauve)
    runs = [read_run(text) for text in options.runs]
    compared = compare_all(runs, options.baseline, options.resamples, options.seed)
    show(compared)
    if options.mauve:
        rows = add_mauve(compared, runs, options.mauve)
        print_table("MAUVE against the gold answers", ["data set", "run", "MAUVE"], rows)
    if options.markdown:
        options.markdown.write_text(markdown(compared), encoding="utf-8")
    if options.picture:
        draw(compared, options.picture)
    if options.json:
        emit_json({"datasets": compared})


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add(
        "runs",
        nargs="+",
        metavar="[LABEL=]RUN",
        help="results folder of inference/evaluate.py (label: its loop)",
    )
    add("--baseline", metavar="LABEL", help="tested against (default: each data set's first run)")
    add("--resamples", type=int, default=DEFAULT_RESAMPLES, help="default: %(default)s")
    add("--seed", type=int, default=0, help="of the resampling (default: 0)")
    add("--mauve", type=Path, metavar="DIR",
        help="also MAUVE of long answers, by this GPT-2 or BERT model")  # fmt: skip
    add("--markdown", type=Path, metavar="FILE", help="write the tables in Markdown, too")
    add("--picture", type=Path, metavar="FILE", help="draw F1 against weighted tokens")
    add("--json", action="store_true", help="print one JSON object as the last line")
    return parser


if __name__ == "__main__":
    main()
