"""One stage: questions in their order through a teacher, resumable and bounded in cost."""

import argparse
import asyncio
import json
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol, TextIO

from tqdm import tqdm

from common.errors import UserError
from common.files import atomic_directory
from common.tables import emit_json, print_table, report
from data_gen.hotpot_subq.documents import QuestionFiles
from data_gen.hotpot_subq.run import call_limits, prices
from data_gen.sources.arguments import source_sha256
from data_gen.teacher.caller import CallFailedError, RunStoppedError, TeacherCaller, ordered_map
from data_gen.teacher.journal import Journal, read_journal
from data_gen.teacher.open_teacher import Teacher
from data_gen.teacher.prompts import Asker
from data_gen.teacher.spending import Estimate, RunBill
from models.formats.records import QuestionRecord

KEPT_FILE = "questions.jsonl"
LEFT_OUT_FILE = "left_out.jsonl"
# So many questions wait for a slow one before the stage waits for it too.
WINDOW_PER_REQUEST = 16
# Of these so many are worked on: first questions end first, and each request has one in waiting.
OPEN_PER_REQUEST = 2

REPORT_FILE = "report.json"
UPPER_BOUND = (
    "At most, for calls that are each answered well at once: outputs have the greatest length, and "
    "prompts that depend on earlier answers show these at theirs. An answer that is refused is "
    "asked for once more. Of an endpoint's model, tokens read are estimated by their characters."
)


@dataclass(frozen=True)
class Decision:
    """A question as a stage leaves it.

    outcome: one of the stage's own words; each question has exactly one. kept: the next stage
    gets it. failed: the teacher gave no answer, so that another run may decide otherwise. notes:
    what else befell it, any number. prediction: a base model's answer, if asked.
    """

    record: QuestionRecord
    outcome: str
    kept: bool = False
    failed: bool = False
    notes: tuple[str, ...] = ()
    prediction: str | None = None


Decide = Callable[[QuestionRecord, Asker], Awaitable[Decision]]


@dataclass
class DecisionCounts:
    """Numbers of questions by outcome."""

    kept: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    def take(self, decision: Decision) -> None:
        """Count one question."""
        counter = self.kept if decision.kept else self.left_out
        (self.failed if decision.failed else counter)[decision.outcome] += 1
        self.notes.update(decision.notes)

    def check(self, read: int) -> None:
        """Raise ValueError unless every question that was read has one outcome."""
        counted = self.kept.total() + self.left_out.total() + self.failed.total()
        if counted != read:
            raise ValueError(f"{read} questions were read and {counted} have an outcome")

    def as_dict(self) -> dict[str, Any]:
        """Return the counts by outcome, sorted by name."""
        return {
            "questions": self.kept.total() + self.left_out.total() + self.failed.total(),
            **{name: dict(sorted(counter.items())) for name, counter in vars(self).items()},
        }

    def rows(self) -> list[list[Any]]:
        """Return the rows of a table: kind, outcome, questions."""
        counters = vars(self).items()
        return [[kind, name, n] for kind, c in counters for name, n in sorted(c.items())]


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
            write_line(self._kept, record)
        else:
            write_line(self._left_out, {**record, "outcome": decision.outcome})

    def close(self) -> None:
        """End the files."""
        self._kept.close()
        self._left_out.close()


def write_line(file: TextIO, record: dict[str, object]) -> None:
    file.write(json.dumps(record, ensure_ascii=False) + "\n")


class StageNotDoneError(UserError, RuntimeError):
    """A stage that wrote no output; its answers are in the journal. The message says why."""


@dataclass(frozen=True)
class StagePlan:
    """A stage's task.

    settings: what its report says of how; those that decide its output.
    """

    name: str
    files: QuestionFiles
    decide: Decide
    teacher: Teacher
    make_writer: Callable[[Path], DecisionWriter]
    settings: dict[str, Any]


def run_stage(plan: StagePlan, options: argparse.Namespace) -> None:
    """Estimate, ask, write and report. Raises StageNotDoneError, JournalError, ValueError."""
    estimate, total = asyncio.run(_estimate(plan, options))
    columns, rows = estimate.table()
    print_table(f"Estimate of {plan.name}: {total} questions", columns, rows)
    if rows:
        print(UPPER_BOUND)
    if options.dry_run:
        if options.json:
            emit_json({"dry_run": True, "questions": total, "estimate": estimate.as_dict()})
        return
    # Without a call to make, known or new, no model is opened.
    run = _ask(plan, options, total) if estimate.stages else _decide(plan, options, estimate, None)
    counts, bill = asyncio.run(run)
    shown = {**counts.as_dict(), "bill": bill.as_dict()}
    title = f"{plan.name}: {options.out}"
    report(title, ["kind", "outcome", "questions"], counts.rows(), options, shown)


async def _estimate(plan: StagePlan, options: argparse.Namespace) -> tuple[Estimate, int]:
    answers = read_journal(options.journal).answers
    estimate = Estimate(plan.teacher.model, answers, prices(options), plan.teacher.count_tokens)
    with tqdm(desc=f"{plan.name}, estimate", unit=" questions") as progress:
        await decide_all(plan.files, plan.decide, estimate, 1, lambda _: _step(progress))
        return estimate, int(progress.n)


async def _ask(
    plan: StagePlan, options: argparse.Namespace, total: int
) -> tuple[DecisionCounts, RunBill]:
    """Return the stage with a teacher; the bill is printed however it ends."""
    journal = Journal(options.journal)
    try:
        engine = plan.teacher.open_engine()
        limits = call_limits(options, remote=plan.teacher.is_remote)
        caller = TeacherCaller(engine, plan.teacher.model, journal, limits)
        _stop_at_signals(caller)
        try:
            return await _decide(plan, options, caller, total)
        finally:
            await engine.close()
            print_table("Bill of this run", *caller.bill.table())
            _print_totals(journal)
    finally:
        journal.close()


async def _decide(
    plan: StagePlan, options: argparse.Namespace, asker: TeacherCaller | Estimate, total: int | None
) -> tuple[DecisionCounts, RunBill]:
    bill = asker.bill if isinstance(asker, TeacherCaller) else RunBill()
    with tqdm(desc=plan.name, unit=" questions", total=total) as progress:
        try:
            counts = await _write(plan, options, asker, lambda _: _step(progress, bill))
        except RunStoppedError as error:
            raise StageNotDoneError(
                f"{plan.name} stopped after {progress.n} questions: {error}. Every answer is kept "
                f"in {options.journal}: run the same command again to go on"
            ) from error
    return counts, bill


async def _write(
    plan: StagePlan, options: argparse.Namespace, asker: Asker, on_decision: OnDecision
) -> DecisionCounts:
    """Write the stage's folder, whole or not at all."""
    with atomic_directory(options.out) as folder:
        with closing(plan.make_writer(folder)) as writer:

            def take(decision: Decision) -> None:
                writer.write(decision)
                on_decision(decision)

            counts = await decide_all(plan.files, plan.decide, asker, options.concurrency, take)
        _require_whole(plan, options, counts)
        counts.left_out.update(plan.files.left_out)
        counts.check(plan.files.read)
        _write_report(folder, plan, counts)
    return counts


def _require_whole(plan: StagePlan, options: argparse.Namespace, counts: DecisionCounts) -> None:
    if counts.failed and not options.leave_out_failed:
        kinds = ", ".join(f"{n} with {kind}" for kind, n in sorted(counts.failed.items()))
        raise StageNotDoneError(
            f"{plan.name}: {counts.failed.total()} questions have no answer ({kinds}); the reasons "
            f"are in {options.journal}. Run the same command again to ask for these alone, or "
            "leave them out with --leave-out-failed"
        )


def _write_report(folder: Path, plan: StagePlan, counts: DecisionCounts) -> None:
    """Write what the output was made from and how; nothing in it differs between two runs."""
    report = {
        "stage": plan.name,
        "model": plan.teacher.model,
        "settings": plan.settings,
        "files": [
            {"file": Path(file.path).name, "sha256": source_sha256(file.path)}
            for file in plan.files.files
        ],
        **counts.as_dict(),
    }
    text = json.dumps(report, ensure_ascii=False, indent=2)
    (folder / REPORT_FILE).write_text(text + "\n", encoding="utf-8")


def _step(progress: "tqdm[NoReturn]", bill: RunBill | None = None) -> None:
    progress.update()
    if bill is not None:
        calls = sum(stage.calls for stage in bill.stages.values())
        progress.set_postfix(calls=calls, spend=f"{bill.cost:.4f}", refresh=False)


def _stop_at_signals(caller: TeacherCaller) -> None:
    """The first Ctrl-C or SIGTERM waits for what is under way; a second one ends at once."""
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
        caller.stop(f"stopped by {number.name}")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)


def _print_totals(journal: Journal) -> None:
    contents = journal.contents
    paid, lost = contents.confirmed, contents.lost_at_most()
    rows = [
        ["answers", len(contents.answers), paid.tokens, paid.cost],
        ["broken off, at most", "-", lost.tokens, lost.cost],
    ]
    print_table(f"All of {journal.path.name}", ["what", "calls", "tokens", "cost"], rows)
