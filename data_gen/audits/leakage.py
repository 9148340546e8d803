"""Whether one question or passage stands in two splits, or a test question in any.

The published scripts split by sample, so that steps of one question leak from train to test."""

from collections.abc import Sequence

import numpy as np

from data_gen.audits.findings import Choice, Example, Finding, Severity, graded
from data_gen.audits.hashes import (
    Hashes,
    Mask,
    chosen,
    first_of_each_value,
    keys_with_two_values,
)
from data_gen.audits.held_out import HeldOut
from data_gen.audits.inputs import SplitFile
from data_gen.audits.kinds import CONDITIONS, TRIPLES
from data_gen.audits.table import RecordTable
from data_gen.splits import SPLITS

_SPLIT_REMEDY = "split by a key that all its samples share (data_gen/write_splits.py)"


def split_numbers(table: RecordTable, files: Sequence[SplitFile]) -> Hashes:
    """The number of each record's split."""
    of_file = np.array([SPLITS.index(file.split) for file in files], dtype=np.uint64)
    return of_file[table.files().astype(np.intp)]


def split_leakage(table: RecordTable, files: Sequence[SplitFile], choice: Choice) -> list[Finding]:
    """Questions or passages in more than one split: by id, and by wording under different ids."""
    splits = split_numbers(table, files)
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
    """Records of test questions, or on passages that support one; nothing without any."""
    if not held_out.known:
        return []
    remedy = "build again with --exclude of the same files"
    if table.kind in (TRIPLES, CONDITIONS):
        wordings = table.column("wording")
        found = np.isin(wordings, held_out.passages)
        what = "support a test question (whole, or cut after at least 12 words)"
        return [_held_out("test_passage", table, wordings, found, choice, what, remedy)]
    owners, wordings = table.column("owner"), table.column("wording")
    by_id = np.isin(owners, held_out.ids)
    by_words = np.isin(wordings, held_out.wordings) & ~by_id
    return [
        _held_out(
            "test_question", table, owners, by_id, choice,
            "have the id of a test question", remedy,
        ),
        _held_out(
            "test_question_wording", table, wordings, by_words, choice,
            "have the words of a test question under another id", remedy,
        ),
    ]  # fmt: skip


def _held_out(
    name: str, table: RecordTable, keys: Hashes, found: Mask, choice: Choice,
    what: str, remedy: str,
) -> Finding:  # fmt: skip
    leaked = np.unique(keys[found])
    examples = [
        Example((table.place(int(np.flatnonzero(keys == np.uint64(key))[0])),))
        for key in chosen(leaked, choice)
    ]
    severity = graded(Severity.ERROR, len(leaked))
    unit = f"{table.kind.unit}s"
    return Finding(name, severity, len(leaked), len(np.unique(keys)), unit, what, remedy, examples)
