"""The checks that planner and answerer samples alone have."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from data_gen.audits.balance import Balance, Graphs, beside_paper
from data_gen.audits.findings import Choice, Finding, Place
from data_gen.audits.lengths import Lengths
from data_gen.audits.subqueries import AnswerNaming, RepeatedSubqueries
from data_gen.audits.support import UnsupportedSteps
from data_gen.audits.table import RecordTable, Seen
from models.formats.records import QuestionRecord, RasSample


class RasChecks:
    """Sub-queries, graphs and the balance of labels of one set."""

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
        """RAS Table 4 beside this set, and plans by kind and number of steps before them."""
        spreads = {**lengths.spreads, **self._graphs.spreads}
        figures = {key: spread.figures() for key, spread in spreads.items()}
        by_steps = sorted(self._balance.by_steps.items())
        return {
            "ras_table_4": beside_paper(figures, self._balance.labels),
            "kinds_by_steps": [{"steps": steps, **kinds} for steps, kinds in by_steps],
            "kind_foretold_by_steps_alone": round(self._balance.foretold(), 3),
        }
