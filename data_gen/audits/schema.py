"""Records that nothing can be learned from: broken, blank, empty, or with two labels."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from common.errors import RecordError
from data_gen.audits.findings import Choice, Example, Finding, Place, Reservoir, Severity, graded
from data_gen.audits.table import (
    RecordTable,
    Seen,
    chosen,
    first_of_each_value,
    keys_with_two_values,
    later_repeats,
)
from data_gen.facts.entities import plain_words
from models.formats.planning import PlanAction, format_plans, one_line, parse_plans
from models.formats.records import RasSample, TriplesSample
from models.formats.triples import Triple

# A proof may be empty (Tri-RAG eq. 8).
_MAY_BE_BLANK = frozenset(["proof"])


def blank_fields(value: Any, name: str = "") -> Iterator[str]:
    """Yield the names of a JSON object's strings without text, such as `history[0].subquery`."""
    if isinstance(value, str):
        if not value.strip():
            yield name
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _MAY_BE_BLANK:
                yield from blank_fields(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from blank_fields(item, f"{name}[{index}]")


def label_problem(sample: RasSample) -> str:
    """Return what is wrong with a plan's label in itself or beside its history, if anything."""
    if sample.task != "plan":
        return ""
    plans = parse_plans(sample.label).plans
    if not plans or one_line(format_plans(plans)) != one_line(sample.label):
        return f"label {sample.label!r} is not one whole plan"
    if plans[0].action is PlanAction.NO_RETRIEVAL and sample.history:
        return "[NO_RETRIEVAL] after something was retrieved"
    if plans[0].action is PlanAction.SUFFICIENT and not sample.history:
        return "[SUFFICIENT] before anything was retrieved"
    return ""


class Schema:
    """Records that break their contract or hold a blank field, and plans that are none."""

    def __init__(self, choice: Choice) -> None:
        self.records = 0
        self.plans = 0
        self._broken = Reservoir(choice, "broken_record")
        self._blank = Reservoir(choice, "blank_field")
        self._labels = Reservoir(choice, "bad_plan_label")

    def broken(self, file: int, error: RecordError) -> None:
        """Count a record that its contract refuses."""
        self.records += 1
        line = error.where.rpartition(":")[2]
        self._broken.offer(Example((Place(file, int(line)),), str(error)))

    def not_unicode(self, place: Place) -> None:
        """Count a record whose text cannot be written as UTF-8."""
        self.records += 1
        self._broken.offer(Example((place,), "holds half of a surrogate pair"))

    def whole(self, place: Place, record: Any) -> bool:
        """Return whether no field is blank; counts the record where one is."""
        names = list(blank_fields(record.to_json()))
        if names:
            self.records += 1
            self._blank.offer(Example((place,), f"blank: {', '.join(names[:5])}"))
        return not names

    def see(self, seen: Seen) -> None:
        """Count a record that was read."""
        self.records += 1
        if isinstance(seen.record, RasSample) and seen.record.task == "plan":
            self.plans += 1
            if problem := label_problem(seen.record):
                self._labels.offer(Example((seen.place,), problem))

    def findings(self) -> list[Finding]:
        """Return the findings."""
        broken = self._broken.finding(
            Severity.ERROR, self.records, "records",
            "break their contract: a training stops at the first",
            "correct or remove the line that is named; build again with --skip-bad",
        )  # fmt: skip
        blank = self._blank.finding(
            Severity.ERROR, self.records, "records",
            "hold a blank id, question, sub-query, text, triple part or label",
            "fill the field in or remove the record at its source",
        )  # fmt: skip
        labels = self._labels.finding(
            Severity.ERROR, self.plans, "plans",
            "have a label that is not one plan or cannot follow their history",
            "write labels with models/formats/planning.py; check the builder's last step",
        )  # fmt: skip
        return [broken, blank, labels] if self.plans else [broken, blank]


def is_self_loop(triple: Triple) -> bool:
    """Return whether subject and object are one name; "Dawn (album)" and "Dawn" are two."""
    return plain_words(triple.subject) == plain_words(triple.object)


class EmptyTriples:
    """Samples with a triple from a thing to itself, and texts of which no triple is told."""

    def __init__(self, choice: Choice) -> None:
        self._samples = self._texts = 0
        self._loops = Reservoir(choice, "self_loop")
        self._empty = Reservoir(choice, "no_triples")

    def see(self, seen: Seen) -> None:
        """Count one sample."""
        sample: RasSample | TriplesSample = seen.record
        if isinstance(sample, TriplesSample):
            triples = sample.triples
        else:
            triples = [triple for step in sample.history for triple in step.triples]
        self._samples += bool(triples)
        if loop := next(filter(is_self_loop, triples), None):
            self._loops.offer(Example((seen.place,), " | ".join(vars(loop).values())))
        if isinstance(sample, TriplesSample):
            self._texts += 1
            if not triples:
                self._empty.offer(Example((seen.place,)))

    def findings(self) -> list[Finding]:
        """Return what was found; empty labels only where triples are the label."""
        loops = self._loops.finding(
            Severity.WARNING, self._samples, "samples with triples",
            "hold a triple whose subject is its object: what was said is lost",
            "check the builder's step from a question to its triple "
            "(models/facts/subqueries.py), or leave such triples out",
        )  # fmt: skip
        empty = self._empty.finding(
            Severity.WARNING, self._texts, "samples",
            "have no triple as their label: a model learns to leave facts out",
            "leave out texts without facts, or keep few of them",
        )  # fmt: skip
        return [loops, empty] if self._texts else [loops]


def label_findings(table: RecordTable, choice: Choice) -> list[Finding]:
    """Contradictory labels, where a prompt has one label; repeated samples; repeated ids."""
    own = [contradictory_labels(table, choice)] if table.kind.one_label else []
    return [*own, repeated_samples(table, choice), repeated_ids(table, choice)]


def contradictory_labels(table: RecordTable, choice: Choice) -> Finding:
    """Return the prompts that two samples answer differently."""
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
    """Return the samples whose prompt and label an earlier one has."""
    repeats = later_repeats(table.column("prompt"), table.column("label"))
    return _repeated(
        "repeated_sample", table, np.flatnonzero(repeats), choice,
        "have the prompt and label of an earlier one, which counts double in training",
        "remove the later ones (data_gen/samples/labels.py: check_labels)",
    )  # fmt: skip


def repeated_ids(table: RecordTable, choice: Choice) -> Finding:
    """Return the samples whose id an earlier one has, whatever else they say."""
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
