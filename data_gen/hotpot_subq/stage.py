"""One stage over all questions: decided side by side, written in order, counted without a rest."""

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol, TextIO

from data_gen.hotpot_subq.decision import Decide, Decision, DecisionCounts
from data_gen.hotpot_subq.direct_answers import Attempt
from data_gen.teacher.caller import CallFailedError
from data_gen.teacher.calls import Asker
from data_gen.teacher.ordered_map import ordered_map
from models.formats.records import QuestionRecord

KEPT_FILE = "questions.jsonl"
LEFT_OUT_FILE = "left_out.jsonl"
ATTEMPTS_FILE = "attempts.jsonl"
# So many questions wait for a slow one before the stage waits for it too.
WINDOW_PER_REQUEST = 16
# Of these so many are worked on: first questions end first, and each request has one in waiting.
OPEN_PER_REQUEST = 2

OnDecision = Callable[[Decision], None]


async def decide_all(
    records: Iterable[QuestionRecord],
    decide: Decide,
    asker: Asker,
    concurrency: int,
    on_decision: OnDecision,
) -> DecisionCounts:
    """Decide about every question, `on_decision` in the questions' order.

    A call that failed is its question's outcome. Raises RunStoppedError.
    """

    room = asyncio.Semaphore(OPEN_PER_REQUEST * concurrency)

    async def decided(record: QuestionRecord) -> Decision:
        async with room:
            try:
                return await decide(record, asker)
            except CallFailedError as error:
                return Decision(record, f"call failed: {error.kind}", failed=True)

    counts = DecisionCounts()
    results = ordered_map(records, decided, WINDOW_PER_REQUEST * concurrency)
    async with aclosing(results):
        async for decision in results:
            counts.take(decision)
            on_decision(decision)
    return counts


class DecisionWriter(Protocol):
    """Writes what a stage decided into its folder."""

    def write(self, decision: Decision) -> None:
        """Write one question."""
        ...

    def close(self) -> None:
        """End the files."""
        ...


class QuestionWriter:
    """Writes kept questions to one file, and the others with their outcome to another."""

    def __init__(self, folder: Path) -> None:
        self._kept: TextIO = (folder / KEPT_FILE).open("w", encoding="utf-8")
        self._left_out: TextIO = (folder / LEFT_OUT_FILE).open("w", encoding="utf-8")

    def write(self, decision: Decision) -> None:
        """Write one question."""
        record = decision.record.to_json()
        if decision.kept:
            _write_line(self._kept, record)
        else:
            _write_line(self._left_out, {**record, "outcome": decision.outcome})

    def close(self) -> None:
        """End the files."""
        self._kept.close()
        self._left_out.close()


class AttemptWriter:
    """Writes a base model's answers; what was not asked or failed has none."""

    def __init__(self, folder: Path) -> None:
        self._file: TextIO = (folder / ATTEMPTS_FILE).open("w", encoding="utf-8")

    def write(self, decision: Decision) -> None:
        """Write one attempt."""
        if decision.prediction is not None:
            attempt = Attempt(decision.record.id, decision.prediction, decision.kept)
            _write_line(self._file, attempt.to_json())

    def close(self) -> None:
        """End the file."""
        self._file.close()


def _write_line(file: TextIO, record: dict[str, object]) -> None:
    file.write(json.dumps(record, ensure_ascii=False) + "\n")
