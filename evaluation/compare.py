"""Compare two evaluation runs question by question: paired differences in EM and F1.

python evaluation/compare.py runs/baseline runs/candidate --json
"""

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.report import emit_json, print_table
from evaluation.significance import DEFAULT_RESAMPLES, bootstrap_interval, paired_bootstrap

METRICS = ("em", "f1")
_SHOWN_IDS = 3


class TraceError(ValueError):
    """A run's traces cannot be compared; the message names the file, the line and the field."""


@dataclass(frozen=True)
class TraceScores:
    """What a comparison needs of one trace record."""

    id: str
    em: float
    f1: float
    failed: bool


def read_scores(path: Path) -> dict[str, TraceScores]:
    """Read the scores of a results folder or its ``traces.jsonl``, by question id, in order.

    Raises TraceError for a missing, empty or malformed file and for an id that occurs twice.
    """
    file = path / "traces.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise TraceError(f"{file}: no such file; give a folder that inference/evaluate.py wrote")
    scores: dict[str, TraceScores] = {}
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            record = _parse_line(line, f"{file}:{number}")
            if record.id in scores:
                raise TraceError(f"{file}:{number}: field 'id': {record.id!r} occurs twice")
            scores[record.id] = record
    if not scores:
        raise TraceError(f"{file}: holds no traces")
    return scores


def compare_runs(
    baseline: dict[str, TraceScores],
    candidate: dict[str, TraceScores],
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Return, for EM and F1, both means with intervals and the paired difference, all in 0 to 1.

    The difference is candidate minus baseline over the same questions; records are matched by id.

    Raises TraceError if the two runs did not answer the same questions.
    """
    _require_same_questions(baseline, candidate)
    result: dict[str, Any] = {"n": len(baseline)}
    for metric in METRICS:
        first = [getattr(record, metric) for record in baseline.values()]
        second = [getattr(candidate[question], metric) for question in baseline]
        result[metric] = {
            "baseline": asdict(bootstrap_interval(first, resamples, seed=seed)),
            "candidate": asdict(bootstrap_interval(second, resamples, seed=seed)),
            **asdict(paired_bootstrap(first, second, resamples, seed=seed)),
        }
    result["errors"] = {
        "baseline": sum(record.failed for record in baseline.values()),
        "candidate": sum(record.failed for record in candidate.values()),
    }
    return result


def main() -> None:
    """Run the command."""
    parser = _parser()
    options = parser.parse_args()
    if options.resamples < 1:
        parser.error(f"--resamples must be at least 1, not {options.resamples}")
    try:
        baseline, candidate = read_scores(options.baseline), read_scores(options.candidate)
        result = compare_runs(baseline, candidate, options.resamples, options.seed)
    except TraceError as error:
        parser.error(str(error))
    _show(result)
    if options.json:
        emit_json({"baseline": options.baseline, "candidate": options.candidate, **result})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Compare two evaluation runs over the same questions with a paired bootstrap."
    )
    runs = "results folder of inference/evaluate.py, or its traces.jsonl"
    parser.add_argument("baseline", type=Path, help=runs)
    parser.add_argument("candidate", type=Path, help=runs)
    parser.add_argument(
        "--resamples", type=int, default=DEFAULT_RESAMPLES, help="default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the resampling (default: 0)")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object as the last line"
    )
    return parser


def _show(result: dict[str, Any]) -> None:
    columns = ["metric", "baseline", "candidate", "difference", "p-value", "n"]
    rows = [
        [
            metric.upper(),
            _percent(result[metric]["baseline"], "mean"),
            _percent(result[metric]["candidate"], "mean"),
            _percent(result[metric], "difference", sign="+"),
            result[metric]["p_value"],
            result["n"],
        ]
        for metric in METRICS
    ]
    print_table("Paired comparison, in percent with 95 % intervals", columns, rows)


def _percent(values: dict[str, float], name: str, sign: str = "") -> str:
    middle, low, high = (100 * values[key] for key in (name, "low", "high"))
    return f"{middle:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def _parse_line(line: bytes, where: str) -> TraceScores:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise TraceError(f"{where}: not JSON ({error}); was the run cut off?") from error
    if not isinstance(record, dict):
        raise TraceError(f"{where}: not a JSON object")
    question = record.get("id")
    if not isinstance(question, str) or not question:
        raise TraceError(f"{where}: field 'id': must be a text that names the question")
    em, f1 = (_score(record, metric, where) for metric in METRICS)
    return TraceScores(question, em, f1, failed=record.get("error") is not None)


def _score(record: dict[str, Any], metric: str, where: str) -> float:
    value = record.get(metric)
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise TraceError(f"{where}: field '{metric}': must be a number from 0 to 1, not {value!r}")
    return float(value)


def _require_same_questions(
    baseline: dict[str, TraceScores], candidate: dict[str, TraceScores]
) -> None:
    only = {
        "baseline": [question for question in baseline if question not in candidate],
        "candidate": [question for question in candidate if question not in baseline],
    }
    parts = [
        f"{len(ids)} only in the {run} ({', '.join(ids[:_SHOWN_IDS])}"
        f"{', ...' if len(ids) > _SHOWN_IDS else ''})"
        for run, ids in only.items()
        if ids
    ]
    if parts:
        raise TraceError(
            f"the runs answered different questions: {'; '.join(parts)}. "
            "Evaluate both on the same data set and --limit"
        )


if __name__ == "__main__":
    main()
