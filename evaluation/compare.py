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
from evaluation.compare_tables import (
    COLUMNS,
    TYPE_COLUMNS,
    draw,
    has_types,
    markdown,
    rows_of,
    type_rows_of,
)
from evaluation.runs import METRICS, Run, TraceError, check_alike, read_run
from evaluation.significance import (
    DEFAULT_RESAMPLES,
    bootstrap_interval,
    holm,
    paired_bootstrap,
    places_by_type,
)

MEANS = ("llm_calls", "weighted_tokens", "recall", "seconds")


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
    runs = [read_run(text) for text in options.runs]
    compared = compare_all(runs, options.baseline, options.resamples, options.seed)
    show(compared)
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
    add("--markdown", type=Path, metavar="FILE", help="write the tables in Markdown, too")
    add("--picture", type=Path, metavar="FILE", help="draw F1 against weighted tokens")
    add("--json", action="store_true", help="print one JSON object as the last line")
    return parser


if __name__ == "__main__":
    main()
