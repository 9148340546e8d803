"""Questions of a set that share a hop or an evidence triple with a test question.

A sample does not say which facts its question is about, so these are looked up by its id in the
sources' questions; a MuSiQue id names its hops by itself."""

from array import array
from collections.abc import Iterable, Iterator

import numpy as np

from data_gen.audits.findings import Choice, Example, Finding, Severity, graded
from data_gen.audits.hashes import Hashes, as_numpy, chosen, text_hash
from data_gen.audits.kinds import HELPERS, PLANS_AND_ANSWERS, Kind
from data_gen.audits.table import RecordTable, Seen
from data_gen.held_out import HeldOutQuestions, Leak, component_keys
from models.formats.records import QuestionRecord

_REMEDY = "build again with --exclude of the same files"
_FINDINGS = {
    Leak.HOP: ("test_hop", "share a hop with a test question"),
    Leak.TRIPLE: ("test_triple", "share an evidence triple with a test question"),
    Leak.PARAPHRASE: ("test_paraphrase", "are a test question in other words"),
}


class SharedFacts:
    """Compares source questions with test questions, 8 bytes a source question.

    Ids and wordings of test questions are for `held_out_leakage`.
    """

    def __init__(self, kind: Kind, held_out: HeldOutQuestions, choice: Choice) -> None:
        self._kind, self._held_out, self._choice = kind, held_out, choice
        self._applies = bool(held_out) and kind in (PLANS_AND_ANSWERS, HELPERS)
        self._known = array("Q")
        self._leaking: dict[Leak, set[int]] = {leak: set() for leak in _FINDINGS}

    def compared(self, questions: Iterable[QuestionRecord]) -> Iterator[QuestionRecord]:
        """The source questions as they came; each is compared on its way."""
        for record in questions:
            if self._applies:
                self._compare(record)
            yield record

    def _compare(self, record: QuestionRecord) -> None:
        key = text_hash(record.id)
        self._known.append(key)
        leak = self._held_out.reason(record)
        if leak in self._leaking:
            self._leaking[leak].add(key)

    def see(self, seen: Seen) -> None:
        """Take in one sample, whose question's id may name its hops."""
        owner = self._kind.owner(seen.record) if self._applies else ""
        if self._held_out.first(component_keys(owner)):
            self._leaking[Leak.HOP].add(text_hash(owner))

    def findings(self, table: RecordTable) -> list[Finding]:
        """What was found; nothing without test questions, or in a set of passages."""
        if not self._applies:
            return []
        owners = table.column("owner")
        distinct = np.unique(owners)
        known = int(np.isin(distinct, as_numpy(self._known)).sum())
        return [self._finding(leak, table, owners, len(distinct), known) for leak in _FINDINGS]

    def _finding(
        self, leak: Leak, table: RecordTable, owners: Hashes, questions: int, known: int
    ) -> Finding:
        name, what = _FINDINGS[leak]
        leaking = np.array(sorted(self._leaking[leak]), dtype=np.uint64)
        leaked = np.intersect1d(owners, leaking)
        examples = [
            Example((table.place(int(np.flatnonzero(owners == np.uint64(key))[0])),))
            for key in chosen(leaked, self._choice)
        ]
        # What a MuSiQue id tells is told of every question.
        of = questions if leak is Leak.HOP else known
        told = f" (the annotation of {known} of {questions} was at hand)"
        return Finding(
            name, graded(Severity.ERROR, len(leaked)), len(leaked), of, "questions",
            f"{what}{told}", _REMEDY, examples,
        )  # fmt: skip
