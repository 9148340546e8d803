"""Show two training runs side by side: what they were made with, and their curves.

training/compare.py RUN RUN [--out curves.png]
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.commands import command_parser, one_line_errors
from common.errors import RecordError
from common.tables import emit_json, print_table
from training.run.run_folder import read_history, read_starts

CURVES = ("loss", "eval_loss", "learning_rate", "grad_norm")
# Of a start: what makes a run another run. When and where it lay does not.
COMPARED = ("settings", "data", "versions", "git", "processes", "hardware")
ROWS = 12
Curve = dict[int, float]


def differences(
    first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = ""
) -> list[tuple[str, Any, Any]]:
    """Dotted keys whose values differ, with both values; None where one has no such key."""
    found: list[tuple[str, Any, Any]] = []
    for key in [*first, *(key for key in second if key not in first)]:
        ours, theirs = first.get(key), second.get(key)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            found.extend(differences(ours, theirs, f"{prefix}{key}."))
        elif ours != theirs:
            found.append((prefix + key, ours, theirs))
    return found


def curves(run: Path) -> dict[str, Curve]:
    """Each figure of `CURVES` by step.

    Raises:
        FileNotFoundError: the folder has no history.
    """
    history = read_history(run)
    return {name: {int(e["step"]): float(e[name]) for e in history if name in e} for name in CURVES}


def curve_rows(first: Mapping[str, Curve], second: Mapping[str, Curve]) -> list[list[Any]]:
    """Rows (step, both losses, both validation losses) at up to 12 steps, the last one among."""
    shown = ("loss", "eval_loss")
    steps = sorted({step for run in (first, second) for name in shown for step in run[name]})
    every = max(1, -(-len(steps) // ROWS))
    chosen = steps[::-1][::every][::-1]
    return [
        [step, *(run[name].get(step) for name in shown for run in (first, second))]
        for step in chosen
    ]


def draw(runs: Sequence[tuple[str, Mapping[str, Curve]]], out: Path) -> None:
    """Draw every curve that a run has into one picture."""
    from matplotlib.figure import Figure

    names = [name for name in CURVES if any(run[name] for _, run in runs)] or ["loss"]
    figure = Figure(figsize=(5 * len(names), 4), layout="constrained")
    for number, name in enumerate(names, start=1):
        axes = figure.add_subplot(1, len(names), number)
        for style, (label, run) in zip(("-", "--"), runs, strict=True):
            marker = "o" if len(run[name]) < ROWS else ""
            axes.plot([*run[name]], [*run[name].values()], style, marker=marker, label=label)
        axes.set_title(name)
        axes.set_xlabel("step")
        axes.legend()
    figure.savefig(out)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("runs", nargs=2, type=Path, metavar="RUN", help="output_dir of a training run")
    add("--out", type=Path, help="picture to write: .png, .svg or .pdf")
    add("--json", action="store_true", help="print differences and curves as one JSON object")
    return parser


@one_line_errors(FileNotFoundError, ValueError, RecordError)
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    first, second = arguments.runs
    starts = [{key: read_starts(run)[-1][key] for key in COMPARED} for run in (first, second)]
    changed = differences(starts[0], starts[1])
    ours, theirs = curves(first), curves(second)
    labels = (first.name, second.name) if first.name != second.name else (str(first), str(second))
    rows = [[key, str(mine), str(other)] for key, mine, other in changed]
    print_table("What differs", ["key", *labels], rows)
    columns = ["step", *(f"{name} {label}" for name in ("loss", "eval_loss") for label in labels)]
    print_table("Curves", columns, curve_rows(ours, theirs))
    named = dict(zip(labels, (ours, theirs), strict=True))
    if arguments.out is not None:
        draw(list(named.items()), arguments.out)
    if arguments.json:
        emit_json({"differences": changed, "curves": named})


if __name__ == "__main__":
    main()
