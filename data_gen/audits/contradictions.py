"""Whether one prompt has two labels, and how often a sample or an id comes again."""

import numpy as np

from data_gen.audits.findings import Choice, Example, Finding, Severity, graded
from data_gen.audits.hashes import (
    chosen,
    first_of_each_value,
    keys_with_two_values,
    later_repeats,
)
from data_gen.audits.table import RecordTable


def label_findings(table: RecordTable, choice: Choice) -> list[Finding]:
    """Contradictory labels, where a prompt has one label; repeated samples; repeated ids."""
    own = [contradictory_labels(table, choice)] if table.kind.one_label else []
    return [*own, repeated_samples(table, choice), repeated_ids(table, choice)]


def contradictory_labels(table: RecordTable, choice: Choice) -> Finding:
    """Prompts that two samples answer differently."""
    prompts, labels = table.column("prompt"), table.column("label")
    contradicted = keys_with_two_values(prompts, labels)
    examples = []
    for key in chosen(contradicted, choice):
        positions = first_of_each_value(prompts, labels, np.uint64(key))
        examples.append(Example(tuple(map(table.place, positions)), "one prompt, two labels"))
    return Finding(
        "contradictory_labels",
        graded(Severity.ERROR, len(contradicted)),
        len(contradicted),
        len(np.unique(prompts)),
        "prompts",
        "have two labels: what a model learns from one the other takes back",
        "remove one of the two, or build with --skip-contradictions",
        examples,
    )


def repeated_samples(table: RecordTable, choice: Choice) -> Finding:
    """Samples whose prompt and label an earlier one has."""
    repeats = later_repeats(table.column("prompt"), table.column("label"))
    return _repeated(
        "repeated_sample", table, np.flatnonzero(repeats), choice,
        "have the prompt and label of an earlier one, which counts double in training",
        "remove the later ones (data_gen/labels.py: check_labels)",
    )  # fmt: skip


def repeated_ids(table: RecordTable, choice: Choice) -> Finding:
    """Samples whose id an earlier one has, whatever else they say."""
    ids = table.column("id")
    repeats = later_repeats(ids, np.zeros(len(ids), dtype=np.uint64))
    return _repeated(
        "repeated_id", table, np.flatnonzero(repeats), choice,
        "have the id of an earlier one: errors and splits cannot tell them apart",
        "prefix the ids of each source with its name",
    )  # fmt: skip


def _repeated(
    name: str, table: RecordTable, positions: np.ndarray, choice: Choice,
    what: str, remedy: str,
) -> Finding:  # fmt: skip
    examples = [Example((table.place(p),)) for p in chosen(positions, choice)]
    severity = graded(Severity.WARNING, len(positions))
    return Finding(name, severity, len(positions), len(table), "samples", what, remedy, examples)
