"""The output of commands: a table for people and one JSON object for programs."""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

# Wide enough for a table of scores when the output goes to a file.
_WIDTH_WITHOUT_TERMINAL = 140


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a table in Markdown; each cell as its text."""
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(map(str, line))} |" for line in lines]


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table on standard output; floats get four decimals, numbers stand to the right.

    Raises ValueError if a row has not as many cells as there are columns.
    """
    table = Table(title=Text(title), title_justify="left")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[index]) for row in rows if len(row) > index)
        table.add_column(Text(column), justify="right" if numeric else "left")
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row has {len(row)} cells for {len(columns)} columns: {row!r}")
        # Text, not str: rich would take "[SUBQ]" for markup and drop it.
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=_WIDTH_WITHOUT_TERMINAL)
    console.print(table)


def report(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    options: argparse.Namespace,
    figures: Mapping[str, Any],
) -> None:
    """End a command that wrote `options.out`: print a table, and with --json `figures` too."""
    print_table(title, columns, rows)
    if options.json:
        emit_json({"out": str(options.out), **figures})


def report_counts(title: str, counts: Mapping[str, Any], out: Path, as_json: bool) -> None:
    """End a command that wrote `out`: a table of what it counted, and with `as_json` the same."""
    rows = [[name, value] for name, value in counts.items()]
    print_table(f"{title} {out}", ["what", "count"], rows)
    if as_json:
        emit_json({"out": str(out), **counts})


def emit_json(obj: Any) -> None:
    """Print one JSON object as one line on standard output, to be the last of a command.

    Dataclasses, paths, NumPy numbers and arrays are taken; a number that is not finite becomes
    null, since JSON has none.
    """
    print(json.dumps(_plain(obj), allow_nan=False), flush=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """Return the value in the types that JSON knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
