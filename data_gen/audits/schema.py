"""Whether records can be learned from at all: their contract, blank fields, the label's form."""

from collections.abc import Iterator
from typing import Any

from data_gen.audits.findings import Choice, Example, Finding, Place, Reservoir, Severity, graded
from data_gen.audits.table import Seen
from models.formats.fields import RecordError
from models.formats.plan import PlanAction, format_plan, parse_plan
from models.formats.records import RasSample

# A proof may be empty (Tri-RAG eq. 8).
_MAY_BE_BLANK = frozenset(["proof"])


def blank_fields(value: Any, name: str = "") -> Iterator[str]:
    """Names of a JSON object's strings without text, such as `history[0].subquery`."""
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
    """What is wrong with a plan's label in itself or beside its history; empty for nothing."""
    if sample.task != "plan":
        return ""
    plan = parse_plan(sample.label).plan
    if plan is None or format_plan(plan) != " ".join(sample.label.split()):
        return f"label {sample.label!r} is not one whole plan"
    if plan.action is PlanAction.NO_RETRIEVAL and sample.history:
        return "[NO_RETRIEVAL] after something was retrieved"
    if plan.action is PlanAction.SUFFICIENT and not sample.history:
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
        """Whether no field is blank; counts the record where one is."""
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
        """What was found."""
        found = [
            _finding(
                "broken_record", self._broken, self.records, "records",
                "break their contract: a training stops at the first",
                "correct or remove the line that is named; build again with --skip-bad",
            ),
            _finding(
                "blank_field", self._blank, self.records, "records",
                "hold a blank id, question, sub-query, text, triple part or label",
                "fill the field in or remove the record at its source",
            ),
        ]  # fmt: skip
        if self.plans:
            found.append(
                _finding(
                    "bad_plan_label", self._labels, self.plans, "plans",
                    "have a label that is not one plan or cannot follow their history",
                    "write labels with models/formats/plan.py; check the builder's last step",
                )
            )  # fmt: skip
        return found


def _finding(name: str, found: Reservoir, of: int, unit: str, what: str, remedy: str) -> Finding:
    severity = graded(Severity.ERROR, found.seen)
    return Finding(name, severity, found.seen, of, unit, what, remedy, found.examples())
