"""Questions, passages, hops and evidence that stand in two splits, or in a test set."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from data_gen.audits.findings import Choice, Example, Finding, Severity, graded
from data_gen.audits.inputs import CONDITIONS, HELPERS, PLANS_AND_ANSWERS, TRIPLES, Kind, SplitFile
from data_gen.audits.table import (
    Hashes,
    Mask,
    RecordTable,
    Seen,
    as_numpy,
    chosen,
    first_of_each_value,
    keys_with_two_values,
    text_hash,
)
from data_gen.facts.aligned_passages import supporting_texts
from data_gen.facts.held_out import (
    HeldOutQuestions,
    Leak,
    component_keys,
    question_wording,
    wording,
)
from data_gen.sources.splits import SPLITS
from models.formats.records import QuestionRecord

# A shorter opening is shared by passages that are not one: "List of films: This is a list of".
FEWEST_WORDS_OF_A_CUT = 12
_REMEDY = "build again with --exclude of the same files"
_FINDINGS = {
    Leak.HOP: ("test_hop", "share a hop with a test question"),
    Leak.TRIPLE: ("test_triple", "share an evidence triple with a test question"),
    Leak.PARAPHRASE: ("test_paraphrase", "are a test question in other words"),
}
_SPLIT_REMEDY = "split by a key that all its samples share (data_gen/builds/build.py)"


class HeldOut:
    """The keys that test questions forbid; `known` says whether there are any.

    questions: them, for what source questions share with them.
    """

    def __init__(self, questions: Iterable[QuestionRecord]) -> None:
        ids: set[int] = set()
        wordings: set[int] = set()
        passages: set[int] = set()
        self.questions = HeldOutQuestions()
        for record in questions:
            self.questions.add(record)
            ids.add(text_hash(record.id))
            wordings.add(text_hash(question_wording(record.question)))
            passages |= _openings(record)
        self.known = bool(ids)
        self.ids, self.wordings, self.passages = map(_sorted, (ids, wordings, passages))


def _openings(record: QuestionRecord) -> set[int]:
    """Return the hashes of each supporting passage's wording, whole and cut after any word.

    A builder may have cut the passage (`--max-words`); a cut of fewer than
    `FEWEST_WORDS_OF_A_CUT` words is not known again.
    """
    found: set[int] = set()
    for text in supporting_texts([record]):
        words = wording(text).split()
        ends = range(min(FEWEST_WORDS_OF_A_CUT, len(words)), len(words) + 1)
        found.update(text_hash(" ".join(words[:end])) for end in ends)
    return found


def _sorted(hashes: set[int]) -> Hashes:
    return np.array(sorted(hashes), dtype=np.uint64)


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
        """Yield the source questions as they came; each is compared on its way."""
        for record in questions:
            if self._applies:
                key, leak = text_hash(record.id), self._held_out.reason(record)
                self._known.append(key)
                if leak in self._leaking:
                    self._leaking[leak].add(key)
            yield record

    def see(self, seen: Seen) -> None:
        """Take in one sample, whose question's id may name its hops."""
        owner = self._kind.owner(seen.record) if self._applies else ""
        if self._held_out.first(component_keys(owner)):
            self._leaking[Leak.HOP].add(text_hash(owner))

    def findings(self, table: RecordTable) -> list[Finding]:
        """Return what was found; nothing without test questions, or in a set of passages."""
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
        found = np.isin(owners, _sorted(self._leaking[leak]))
        told = f"{what} (the annotation of {known} of {questions} was at hand)"
        finding = _held_out(name, table, owners, found, self._choice, told)
        # What a MuSiQue id tells is told of every question.
        of = questions if leak is Leak.HOP else known
        return replace(finding, of=of, unit="questions")


def split_leakage(table: RecordTable, files: Sequence[SplitFile], choice: Choice) -> list[Finding]:
    """Return questions or passages in more than one split: by id, and by wording of other ids."""
    of_file = np.array([SPLITS.index(file.split) for file in files], dtype=np.uint64)
    splits = of_file[table.files().astype(np.intp)]
    owners, wordings = table.column("owner"), table.column("wording")
    shared = keys_with_two_values(owners, splits)
    by_id = np.isin(owners, shared)
    same_words = keys_with_two_values(wordings, splits)
    # What has leaked under one id is said once.
    same_words = same_words[~np.isin(same_words, wordings[by_id])]
    unit = table.kind.unit
    return [
        _leak(
            f"{unit}_in_two_splits", table, owners, splits, shared, choice,
            "stand in more than one split under one id: what is measured was trained on",
        ),
        _leak(
            f"{unit}_wording_in_two_splits", table, wordings, splits, same_words, choice,
            "stand in more than one split in the same words under different ids",
        ),
    ]  # fmt: skip


def _leak(
    name: str, table: RecordTable, keys: Hashes, splits: Hashes, shared: Hashes,
    choice: Choice, what: str,
) -> Finding:  # fmt: skip
    examples = []
    for key in chosen(shared, choice):
        positions = first_of_each_value(keys, splits, np.uint64(key), len(SPLITS))
        names = [SPLITS[int(splits[position])] for position in positions]
        places = tuple(map(table.place, positions))
        examples.append(Example(places, f"in {' and '.join(names)}"))
    return Finding(
        name, graded(Severity.ERROR, len(shared)), len(shared), len(np.unique(keys)),
        f"{table.kind.unit}s", what, _SPLIT_REMEDY, examples,
    )  # fmt: skip


def held_out_leakage(table: RecordTable, held_out: HeldOut, choice: Choice) -> list[Finding]:
    """Return records of test questions, or on passages that support one; nothing without any."""
    if not held_out.known:
        return []
    if table.kind in (TRIPLES, CONDITIONS):
        wordings = table.column("wording")
        found = np.isin(wordings, held_out.passages)
        what = "support a test question (whole, or cut after at least 12 words)"
        return [_held_out("test_passage", table, wordings, found, choice, what)]
    owners, wordings = table.column("owner"), table.column("wording")
    by_id = np.isin(owners, held_out.ids)
    by_words = np.isin(wordings, held_out.wordings) & ~by_id
    by_other_id = "have the words of a test question under another id"
    return [
        _held_out("test_question", table, owners, by_id, choice, "have the id of a test question"),
        _held_out("test_question_wording", table, wordings, by_words, choice, by_other_id),
    ]


def _held_out(
    name: str, table: RecordTable, keys: Hashes, found: Mask, choice: Choice, what: str
) -> Finding:
    leaked = np.unique(keys[found])
    examples = [
        Example((table.place(int(np.flatnonzero(keys == np.uint64(key))[0])),))
        for key in chosen(leaked, choice)
    ]
    severity, unit = graded(Severity.ERROR, len(leaked)), f"{table.kind.unit}s"
    of = len(np.unique(keys))
    return Finding(name, severity, len(leaked), of, unit, what, _REMEDY, examples)
