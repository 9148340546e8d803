"""Trainings and other commands of the project as parts of a benchmark, each where it is missing."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import environment, run_process
from common.errors import UserError
from models.files.checkpoint import METRICS_FILE


class PartFailedError(UserError, RuntimeError):
    """A command of a benchmark failed; the message names it and has its error."""


def run_part(arguments: Sequence[object], threads: int) -> dict[str, Any]:
    """Run a command of the project; return the JSON object of its last line.

    Raises PartFailedError.
    """
    words = [sys.executable, *map(str, arguments)]
    result = run_process(words, environment(threads))
    if not result.ok:
        raise PartFailedError(f"{' '.join(words[1:])}\n{result.status}")
    return result.figures


def run_recipe(
    script: Path, config: Path, values: Mapping[str, object], threads: int, further: Sequence[str]
) -> dict[str, Any]:
    """Run a recipe where its output_dir has no finished training; return its metrics.

    values: keys and values that win over the file, output_dir among them. further: more of them, as
    KEY=VALUE. Raises PartFailedError.
    """
    metrics_file = Path(str(values["output_dir"])) / METRICS_FILE
    if not metrics_file.is_file():
        words = [*(f"{name}={value}" for name, value in values.items()), *further]
        run_part([script, "--json", "--config", config, *words], threads)
    metrics: dict[str, Any] = json.loads(metrics_file.read_text("utf-8"))
    metrics.pop("settings", None)
    return metrics
