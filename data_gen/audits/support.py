"""Sub-queries whose triples say nothing about what they ask."""

import functools
from array import array
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

import numpy as np
from tqdm import tqdm

from data_gen.audits.findings import Choice, Example, Finding, Severity, graded
from data_gen.audits.subqueries import NameSearch
from data_gen.audits.table import RecordTable, Seen, as_numpy, chosen, text_hash
from data_gen.facts.entities import entity_key, plain_words
from data_gen.facts.held_out import question_wording, wording
from evaluation.conditions import NAME_LINKS, QUESTION_WORDS, named_entities
from models.formats.planning import HistoryStep
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, RasSample, read_records
from models.formats.triples import Triple

_key = functools.lru_cache(maxsize=1 << 12)(entity_key)
_words = functools.lru_cache(maxsize=1 << 12)(plain_words)
# build_subq.py puts in nine of ten passages that retrieval missed (--gold-rate 0.9): where more
# than a tenth of the steps are without support, something else is wrong.
HARMFUL_SHARE = 0.1
_UNIT = "steps that ask something else than the question"


class Support(IntEnum):
    """The relation of a step's own triples to its sub-query.

    ABOUT: one of them names what is asked about. NOTHING_NEW: none does, but an earlier step has a
    fact about it, and facts are shown once. EMPTY: there are no triples. ELSEWHERE: none of them
    names it.
    """

    ABOUT = 0
    NOTHING_NEW = 1
    EMPTY = 2
    ELSEWHERE = 3


def support(steps: Sequence[HistoryStep], position: int) -> Support:
    """Return what the triples of the step at `position` have to do with its sub-query."""
    step = steps[position]
    names = named_entities(step.subquery)
    if any(_concerns(step.subquery, names, triple) for triple in step.triples):
        return Support.ABOUT
    earlier = [triple.subject for before in steps[:position] for triple in before.triples]
    if any(
        _holds(step.subquery, subject) or any(_holds(subject, name) for name in names)
        for subject in earlier
    ):
        return Support.NOTHING_NEW
    return Support.ELSEWHERE if step.triples else Support.EMPTY


def _concerns(subquery: str, names: Sequence[str], triple: Triple) -> bool:
    """Return whether a triple names what is asked about; without names, shares a word with it."""
    fields = (triple.subject, triple.predicate, triple.object)
    if _holds(subquery, triple.subject) or any(_holds(f, name) for f in fields for name in names):
        return True
    words = {word for field in fields for word in _words(field).split()}
    return not names and bool(words & set(_words(subquery).split()) - QUESTION_WORDS - NAME_LINKS)


def _holds(text: str, entity: str) -> bool:
    return f" {_key(entity)} " in f" {_words(text)} "


class UnsupportedSteps:
    """Collects every step of every history: 13 bytes each, and 24 a name that no triple holds."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self._keys, self._records, self._kinds = array("Q"), array("I"), array("B")
        self._names = NameSearch()

    def see(self, seen: Seen) -> None:
        """Take in the steps of a sample's history, but for those that ask the question itself."""
        sample: RasSample = seen.record
        question = question_wording(sample.question)
        for position, step in enumerate(sample.history):
            if wording(step.subquery) == question:
                continue
            key = text_hash(f"{sample.question_id}\n{position}\n{step.subquery}")
            found = support(sample.history, position)
            self._keys.append(key)
            self._records.append(seen.position)
            self._kinds.append(found)
            if found in (Support.EMPTY, Support.ELSEWHERE):
                self._names.add(key, named_entities(step.subquery))

    def findings(self, table: RecordTable, corpora: Sequence[Path]) -> list[Finding]:
        """Return what was found; with corpora also how many ask about what no passage names."""
        _, first = np.unique(as_numpy(self._keys), return_index=True)
        kinds = np.array(self._kinds, dtype=np.uint8)[first]
        found = [
            self._finding(
                "nothing_new", first[kinds == Support.NOTHING_NEW], len(first), table,
                Severity.NOTE,
                "brought back nothing about what they ask, of which an earlier step told a fact",
                "nothing: facts are shown once; many of them mean steps that need not be asked",
            ),
            self._finding(
                "empty_retrieval", first[kinds == Support.EMPTY], len(first), table,
                _severity(kinds),
                "brought back no triple at all",
                "retrieve more (--top-k, --gold-rate) or extract more triples (--triples)",
            ),
            self._finding(
                "retrieval_elsewhere", first[kinds == Support.ELSEWHERE], len(first), table,
                _severity(kinds),
                "brought back triples of which none names what is asked about",
                "name in the sub-query what its document names; retrieve more (--top-k)",
            ),
        ]  # fmt: skip
        if corpora:
            found.append(self._without_document(first, table, corpora))
        return found

    def _without_document(
        self, first: np.ndarray, table: RecordTable, corpora: Sequence[Path]
    ) -> Finding:
        texts = (
            passage_text(passage.title, passage.text)
            for path in corpora
            for passage in tqdm(read_records(path, PassageRecord), desc=path.name, unit="passage")
        )
        searched, named = self._names.search(texts)
        keys = as_numpy(self._keys)[first]
        missing = np.isin(keys, searched) & ~np.isin(keys, named)
        return self._finding(
            "no_document", first[missing], int(np.isin(keys, searched).sum()), table,
            Severity.WARNING,
            "ask about a name that no passage of the corpus holds",
            "add the passages to the corpus, or leave such questions out",
            "steps that brought back nothing about a name",
        )  # fmt: skip

    def _finding(
        self, name: str, positions: np.ndarray, of: int, table: RecordTable, severity: Severity,
        what: str, remedy: str, unit: str = _UNIT,
    ) -> Finding:  # fmt: skip
        records = [self._records[position] for position in chosen(positions, self.choice)]
        examples = [Example((table.place(record),)) for record in records]
        severity = graded(severity, len(positions))
        return Finding(name, severity, len(positions), of, unit, what, remedy, examples)


def _severity(kinds: np.ndarray) -> Severity:
    """Return a warning; an error where more steps than `HARMFUL_SHARE` are without support."""
    unsupported = np.isin(kinds, (Support.EMPTY, Support.ELSEWHERE)).sum()
    return Severity.ERROR if unsupported > HARMFUL_SHARE * len(kinds) else Severity.WARNING
