"""One audit: all records read, the checks of their kind, and what these found."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_gen.audits.balance import Balance, Graphs, Lengths, beside_paper
from data_gen.audits.findings import Choice, Finding, Place
from data_gen.audits.inputs import (
    PLANS_AND_ANSWERS,
    TRIPLES,
    Kind,
    QuestionFiles,
    SplitFile,
    card_files,
    card_sources,
    common_kind,
    count_lines,
    licence_findings,
)
from data_gen.audits.leakage import HeldOut, SharedFacts, held_out_leakage, split_leakage
from data_gen.audits.schema import EmptyTriples, Schema, label_findings
from data_gen.audits.subqueries import AnswerNaming, RepeatedSubqueries
from data_gen.audits.support import UnsupportedSteps
from data_gen.audits.table import RecordTable, Seen, spread_figures
from data_gen.sources.arguments import NamedPath
from data_gen.streaming.counts import CountTokens
from models.formats.records import QuestionRecord, RasSample, read_numbered


def read_and_check(
    files: Sequence[SplitFile], schema: Schema, table: RecordTable
) -> Iterator[Seen]:
    """Yield every whole record, entered in `table`; what is not whole goes to `schema` alone."""
    for position, file in enumerate(files):
        table.start_file()
        on_error = partial(schema.broken, position)
        numbered = read_numbered(file.path, table.kind.record_type, on_error)
        total = count_lines(file.path)
        for line, record in tqdm(numbered, desc=str(file.path), unit="record", total=total):
            place = Place(position, line)
            if not schema.whole(place, record):
                continue
            try:
                seen = table.add(line, record)
            except UnicodeEncodeError:
                schema.not_unicode(place)
                continue
            schema.see(seen)
            yield seen


def read_again(files: Sequence[SplitFile], table: RecordTable) -> Iterator[tuple[Place, RasSample]]:
    """Yield the planner and answerer samples that `table` holds, from their files once more."""
    for position, file in enumerate(files):
        lines = table.lines(position)
        entered = 0
        records = read_numbered(file.path, RasSample, lambda error: None)
        for line, record in tqdm(records, desc=f"{file.path}, answers", unit="record"):
            if entered < len(lines) and lines[entered] == line:
                entered += 1
                yield Place(position, line), record


@dataclass(frozen=True)
class Settings:
    """The settings of an audit beside its files.

    exclude: files of test questions. corpora: passages in which what unsupported sub-queries ask
    about is looked up. questions: files of the sources' questions, whose answers are known beside
    those of the samples, and whose hops and triples are compared with those of test questions.
    max_tokens, max_label_tokens: see `Lengths`.
    """

    count_tokens: CountTokens
    exclude: Sequence[Path] = ()
    corpora: Sequence[Path] = ()
    questions: Sequence[Path | NamedPath] = ()
    max_tokens: int | None = None
    max_label_tokens: int | None = None
    choice: Choice = field(default_factory=Choice)


@dataclass(frozen=True)
class Outcome:
    """The findings of an audit, the number of whole records of each file, and further figures."""

    kind: Kind
    records: list[int]
    findings: list[Finding]
    figures: dict[str, Any]


class RasChecks:
    """What planner and answerer samples alone have: sub-queries, graphs, the balance of labels."""

    def __init__(self, choice: Choice, questions: Iterable[QuestionRecord]) -> None:
        self._repeats = RepeatedSubqueries(choice)
        self._naming = AnswerNaming(choice, questions)
        self._steps = UnsupportedSteps(choice)
        self._graphs = Graphs(choice)
        self._balance = Balance()

    def see(self, seen: Seen) -> None:
        """First pass: take in one sample."""
        for check in (self._repeats, self._naming, self._steps, self._graphs, self._balance):
            check.see(seen)

    def see_again(self, place: Place, sample: RasSample) -> None:
        """Second pass, once all answers are known."""
        self._naming.see_again(place, sample)

    def findings(self, table: RecordTable, corpora: Sequence[Path]) -> list[Finding]:
        """Return the findings."""
        return [
            *self._repeats.findings(),
            *self._naming.findings(),
            *self._steps.findings(table, corpora),
            *self._graphs.findings(),
            *self._balance.findings(),
        ]

    def figures(self, lengths: Lengths) -> dict[str, Any]:
        """Return RAS Table 4 beside this set, and plans by kind and number of steps before them."""
        spreads = {**lengths.spreads, **self._graphs.spreads}
        figures = {key: spread_figures(counts) for key, counts in spreads.items()}
        by_steps = sorted(self._balance.by_steps.items())
        return {
            "ras_table_4": beside_paper(figures, self._balance.labels),
            "kinds_by_steps": [{"steps": steps, **kinds} for steps, kinds in by_steps],
            "kind_foretold_by_steps_alone": round(self._balance.foretold(), 3),
        }


class Audit:
    """The checks of one set and the table that they share.

    Raises ValueError for files of different kinds or of none.
    """

    def __init__(self, files: Sequence[SplitFile], settings: Settings) -> None:
        self.files, self.settings = files, settings
        choice = settings.choice
        self.kind = common_kind(files)
        self.asked = QuestionFiles()
        self.held_out = HeldOut(self.asked.questions(settings.exclude))
        self.shared = SharedFacts(self.kind, self.held_out.questions, choice)
        self.schema, self.table = Schema(choice), RecordTable(self.kind)
        self.lengths = Lengths(
            settings.count_tokens, settings.max_tokens, settings.max_label_tokens, choice
        )
        questions = self.shared.compared(self.asked.questions(settings.questions))
        self.ras = RasChecks(choice, questions) if self.kind is PLANS_AND_ANSWERS else None
        # What no other check has read is read for what it shares with test questions.
        deque(questions, maxlen=0)
        labelled = self.kind in (PLANS_AND_ANSWERS, TRIPLES)
        self.triples = EmptyTriples(choice) if labelled else None

    def run(self) -> Outcome:
        """Read everything and say what was found. Raises ValueError without a whole record."""
        every = (self.lengths, self.shared, self.ras, self.triples)
        checks = [check for check in every if check is not None]
        for seen in read_and_check(self.files, self.schema, self.table):
            for check in checks:
                check.see(seen)
        if not len(self.table):
            raise ValueError("no whole record in any file: each line breaks its contract")
        if self.ras is not None:
            for place, sample in read_again(self.files, self.table):
                self.ras.see_again(place, sample)
        counts = [len(self.table.lines(file)) for file in range(len(self.files))]
        # First the findings, which count the last lengths.
        findings = self._findings()
        figures = {
            **(self.ras.figures(self.lengths) if self.ras else {}),
            "tokens": self.lengths.figures(),
            "sources": [s for card in card_files(self.files) for s in card_sources(card)],
        }
        return Outcome(self.kind, counts, findings, figures)

    def _findings(self) -> list[Finding]:
        choice = self.settings.choice
        ras = self.ras.findings(self.table, self.settings.corpora) if self.ras else []
        return [
            *self.schema.findings(),
            *self.asked.findings(),
            *split_leakage(self.table, self.files, choice),
            *held_out_leakage(self.table, self.held_out, choice),
            *self.shared.findings(self.table),
            *label_findings(self.table, choice),
            *ras,
            *(self.triples.findings() if self.triples else []),
            *self.lengths.findings(),
            *licence_findings(card_files(self.files)),
        ]
