"""The kinds of supervision that can be audited, and what a record of each stands for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from data_gen.labels import sample_prompt
from data_gen.wording import question_wording, wording
from models.formats.conditions import format_condition
from models.formats.prompts import conditions_prompt, triples_prompt
from models.formats.records import ConditionSample, InstructionSample, RasSample, TriplesSample
from models.formats.triples import format_triples

Sample = RasSample | TriplesSample | ConditionSample | InstructionSample


@dataclass(frozen=True)
class Kind:
    """How records of one contract are audited.

    prompt, label: the texts that a model reads and writes; they raise ValueError on a blank field.
    owner: the question's or passage's id, whose records share a split.
    wording: what tells the question or passage by its words.
    one_label: whether a prompt has one label; a passage's condition triplets share theirs.
    """

    name: str
    unit: str
    record_type: type[Any]
    prompt: Callable[[Any], str]
    label: Callable[[Any], str]
    owner: Callable[[Any], str]
    wording: Callable[[Any], str]
    one_label: bool = True


def _passage_id(sample: ConditionSample) -> str:
    return sample.id.rsplit("/", 1)[0]


PLANS_AND_ANSWERS = Kind(
    "planner and answerer samples", "question", RasSample,
    prompt=sample_prompt,
    label=lambda sample: sample.label,
    owner=lambda sample: sample.question_id,
    wording=lambda sample: question_wording(sample.question),
)  # fmt: skip
TRIPLES = Kind(
    "text-to-triples samples", "passage", TriplesSample,
    prompt=lambda sample: triples_prompt(sample.text),
    label=lambda sample: format_triples(sample.triples),
    owner=lambda sample: sample.id,
    wording=lambda sample: wording(sample.text),
)  # fmt: skip
CONDITIONS = Kind(
    "condition triplets", "passage", ConditionSample,
    prompt=lambda sample: conditions_prompt(sample.text),
    label=lambda sample: format_condition(sample.triplet),
    owner=_passage_id,
    wording=lambda sample: wording(sample.text),
    one_label=False,
)  # fmt: skip
HELPERS = Kind(
    "helper samples", "question", InstructionSample,
    prompt=lambda sample: sample.prompt,
    label=lambda sample: sample.label,
    owner=lambda sample: sample.source_id,
    wording=lambda sample: wording(sample.prompt),
)  # fmt: skip


def kind_of(record: Any) -> Kind | None:
    """The kind of a JSON object, known by a field that only it has; None for another object."""
    if not isinstance(record, dict):
        return None
    by_field = {
        "prompt": HELPERS, "task": PLANS_AND_ANSWERS, "condition": CONDITIONS, "triples": TRIPLES
    }  # fmt: skip
    return next((kind for field, kind in by_field.items() if field in record), None)
