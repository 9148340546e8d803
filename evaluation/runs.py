"""A written evaluation, read for a comparison, and the stage at which its questions went wrong."""

import gzip
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from common.errors import UserError
from evaluation.answers import normalise_answer

Stage = Literal["correct", "plan", "retrieval", "extraction", "answer"]
STAGES: tuple[Stage, ...] = ("correct", "plan", "retrieval", "extraction", "answer")
TRACES_FILE = "traces.jsonl"
# Traces without their graphs, as benchmarks/record.py keeps them.
PREDICTIONS_FILE = "predictions.jsonl.gz"
RESULTS_FILE = "results.json"
PROGRESS_FILE = "progress.jsonl"
SETTINGS_FILE = "settings.json"
METRICS = ("em", "f1")
_SHOWN = 3


@dataclass(frozen=True)
class NeededFact:
    """A fact that the answer rests on, and the passages that state it."""

    subject: str
    object: str
    passages: Collection[str]


def blame(
    correct: bool,
    facts: Sequence[NeededFact],
    graph: Iterable[tuple[str, str]],
    retrieved: Collection[str],
    subqueries: Iterable[str],
) -> Stage:
    """Return the first stage that lost a needed fact of a question that was answered wrongly.

    A fact is there when its subject and object stand in one triple of the graph. One that is
    missing is an extraction error when a passage that states it was retrieved; a retrieval error
    when a subquery asked about its subject and no such passage came; otherwise the planner never
    asked. With every fact there, the answer itself is wrong.
    """
    if correct:
        return "correct"
    known = {frozenset((normalise_answer(a), normalise_answer(b))) for a, b in graph}
    asked = " ".join(map(normalise_answer, subqueries))
    for fact in facts:
        subject, object_ = normalise_answer(fact.subject), normalise_answer(fact.object)
        if frozenset((subject, object_)) in known:
            continue
        if any(passage in retrieved for passage in fact.passages):
            return "extraction"
        return "retrieval" if subject in asked else "plan"
    return "answer"


def count_stages(stages: Iterable[Stage]) -> dict[str, int]:
    """Return how many questions ended at each stage, every stage named."""
    counts = Counter(stages)
    return {stage: counts[stage] for stage in STAGES}


class TraceError(UserError, ValueError):
    """Runs that cannot be read or compared; the message says where and what to do."""


@dataclass(frozen=True)
class TraceScores:
    """The figures of one question's trace that a comparison needs.

    seconds: of all its stages, waiting for the engine included. searches: its steps, of which each
    retrieves once. Costs, searches and recall are None in traces that do not tell them.
    """

    id: str
    em: float
    f1: float
    failed: bool
    type: str = ""
    answers: tuple[str, ...] = ()
    answer: str = ""
    llm_calls: int | None = None
    weighted_tokens: int | None = None
    recall: float | None = None
    seconds: float | None = None
    searches: int | None = None


@dataclass(frozen=True)
class Run:
    """One evaluation: what it is called in tables, its data set, its traces and results."""

    label: str
    folder: Path
    dataset: str
    scores: Mapping[str, TraceScores]
    results: Mapping[str, Any]

    def values(self, name: str) -> list[float]:
        """Return a figure of every question that has it, in the questions' order."""
        found = (getattr(score, name) for score in self.scores.values())
        return [float(value) for value in found if value is not None]

    @property
    def failed(self) -> int:
        """Questions that ended in an error."""
        return sum(score.failed for score in self.scores.values())


def is_begun(folder: Path) -> bool:
    """Return whether an evaluation or a rollout was begun in a folder, so that --resume goes on."""
    return (folder / SETTINGS_FILE).is_file()


def stored_results(folder: Path) -> dict[str, Any] | None:
    """Return the results of an evaluation or a rollout; None where it has none yet."""
    path = folder / RESULTS_FILE
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def read_run(text: str) -> Run:
    """Return the run of `FOLDER` or `LABEL=FOLDER`; without a label, that is the loop's name.

    Raises TraceError where the folder is none of a finished evaluation or cannot be read.
    """
    label, _, path = text.rpartition("=") if not Path(text).exists() else ("", "", text)
    folder = Path(path)
    if folder.name in (TRACES_FILE, PREDICTIONS_FILE):
        folder = folder.parent
    if not folder.is_dir():
        raise TraceError(f"{folder}: no such folder; give one that inference/evaluate.py wrote")
    if (folder / PROGRESS_FILE).is_file():
        raise TraceError(
            f"{folder}: not finished, it holds {PROGRESS_FILE}; go on with the same command of "
            "inference/evaluate.py and --resume"
        )
    results = _read_results(folder / RESULTS_FILE)
    scores = read_scores(folder)
    if results.get("n") != len(scores):
        raise TraceError(
            f"{folder}: {RESULTS_FILE} tells of {results.get('n')} questions and {TRACES_FILE} "
            f"holds {len(scores)}; evaluate again with --resume"
        )
    return Run(label or results["loop"], folder, results["dataset"], scores, results)


def _read_results(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise TraceError(
            f"{file}: no such file, so the run is not finished; run inference/evaluate.py, with "
            "--resume where it was interrupted"
        )
    try:
        results = json.loads(file.read_bytes())
    except ValueError as error:
        raise TraceError(f"{file}: not JSON ({error}); evaluate again with --resume") from error
    for name in ("loop", "dataset"):
        if not isinstance(results, dict) or not isinstance(results.get(name), str):
            raise TraceError(f"{file}: field {name!r}: must be a text; evaluate again")
    return dict(results)


def read_scores(folder: Path) -> dict[str, TraceScores]:
    """Return the scores of a results folder's traces, by question id, in order.

    Raises TraceError for a missing, empty or malformed file and for an id that occurs twice.
    """
    file = folder / TRACES_FILE
    if not file.is_file() and (folder / PREDICTIONS_FILE).is_file():
        file = folder / PREDICTIONS_FILE
    if not file.is_file():
        raise TraceError(f"{file}: no such file; give a folder that inference/evaluate.py wrote")
    scores: dict[str, TraceScores] = {}
    opened = gzip.open if file.name == PREDICTIONS_FILE else open
    with opened(file, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            record = _parse_line(line, f"{file}:{number}")
            if record.id in scores:
                raise TraceError(f"{file}:{number}: field 'id': {record.id!r} occurs twice")
            scores[record.id] = record
    if not scores:
        raise TraceError(f"{file}: holds no traces; evaluate again")
    return scores


def _parse_line(line: bytes, where: str) -> TraceScores:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise TraceError(f"{where}: not JSON ({error}); was the run cut off?") from error
    if not isinstance(record, dict):
        raise TraceError(f"{where}: not a JSON object; evaluate again")
    question = record.get("id")
    if not isinstance(question, str) or not question:
        raise TraceError(f"{where}: field 'id': must be a text that names the question")
    em, f1 = (_score(record, metric, where) for metric in METRICS)
    bill = record.get("bill") or {}
    seconds, steps = bill.get("seconds"), record.get("steps")
    return TraceScores(
        question,
        em,
        f1,
        record.get("error") is not None,
        str(record.get("type") or ""),
        tuple(map(str, record.get("answers") or ())),
        str(record.get("answer") or ""),
        bill.get("llm_calls"),
        bill.get("weighted_tokens"),
        None if record.get("recall") is None else _score(record, "recall", where),
        None if seconds is None else float(sum(seconds.values())),
        None if steps is None else len(steps),
    )


def _score(record: Mapping[str, Any], metric: str, where: str) -> float:
    value = record.get(metric)
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise TraceError(f"{where}: field '{metric}': must be a number from 0 to 1, not {value!r}")
    return float(value)


def check_alike(runs: Sequence[Run]) -> None:
    """Refuse runs over one data set that cannot be set side by side.

    Raises TraceError for two of one label, other questions, or other gold answers or another type
    of one question.
    """
    first = runs[0]
    for place, run in enumerate(runs[1:], start=1):
        if run.label in {other.label for other in runs[:place]}:
            raise TraceError(
                f"two runs over {run.dataset} are called {run.label!r}; name one of them by "
                f"LABEL={run.folder}"
            )
        _check_questions(first, run)
        for question, score in run.scores.items():
            if score.answers != first.scores[question].answers:
                raise TraceError(
                    f"question {question!r} of {run.dataset} has the gold answers "
                    f"{list(first.scores[question].answers)} in {first.folder} and "
                    f"{list(score.answers)} in {run.folder}; evaluate both on the same file"
                )
            if score.type != first.scores[question].type:
                raise TraceError(
                    f"question {question!r} of {run.dataset} has the type "
                    f"{first.scores[question].type!r} in {first.folder} and {score.type!r} in "
                    f"{run.folder}; evaluate both on the same file"
                )


def _check_questions(first: Run, second: Run) -> None:
    parts = [
        f"{len(ids)} only in {run.folder} ({', '.join(ids[:_SHOWN])}"
        f"{', ...' if len(ids) > _SHOWN else ''})"
        for run, other in ((first, second), (second, first))
        if (ids := [question for question in run.scores if question not in other.scores])
    ]
    if parts:
        raise TraceError(
            f"the runs answered different questions of {first.dataset}: {'; '.join(parts)}. "
            "Evaluate both on the same data set and --limit"
        )
