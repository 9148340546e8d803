"""ARC, ASQA and general instructions, in the forms that their copies have."""

from typing import Any

import pytest

from common.errors import RecordError
from data_gen.samples.trajectories import instructed_question
from data_gen.sources.contract import arc_question, asqa_question, instruction
from data_gen.sources.open_source import QUESTION_SOURCES
from data_gen.sources.rows import Row
from models.formats.records import DecompositionStep


def row(value: dict[str, Any]) -> Row:
    return Row(value, "file:1", "file:1")


OFFICIAL_ARC = {
    "id": "A1",
    "question": {
        "stem": "Why?",
        "choices": [{"text": "so", "label": "1"}, {"text": "no", "label": "2"}],
    },
    "answerKey": "2",
}
HUB_ARC = {
    "id": "A1",
    "question": "Why?",
    "choices": {"text": ["so", "no"], "label": ["1", "2"]},
    "answerKey": "2",
}
OWN_ARC = {"id": "A1", "question": "Why?", "choices": {"1": "so", "2": "no"}, "answer": "2"}


def test_arc_in_three_forms_is_one() -> None:
    records = [arc_question(row(form)) for form in (OFFICIAL_ARC, HUB_ARC, OWN_ARC)]
    assert records[0] == records[1] == records[2]
    assert (records[0].question, records[0].answer) == ("Why?\nA: so\nB: no", "B")
    assert records[0].answer_aliases == ["no"]
    assert instructed_question(records[0]).startswith("Which is true? Output A, B, C, or D. Why?")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"choices": ["so", "no"]}, "choices"),
        ({"choices": {"text": ["so"], "label": ["1", "2"]}}, "choices"),
        ({"answerKey": "3"}, "answer"),
    ],
)
def test_a_broken_arc_question_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(RecordError, match=field):
        arc_question(row({**HUB_ARC, **change}))


def test_instructions_with_and_without_input() -> None:
    plain = instruction(row({"instruction": "Say hi. ", "output": "hi"}))
    assert (plain.id, plain.question, plain.answer) == ("file:1", "Say hi.", "hi")
    given = instruction(row({"id": 3, "instruction": "Sum", "input": "1 2", "output": 3}))
    assert (given.id, given.question, given.answer) == ("3", "Sum\n\n## Input:\n\n1 2", "3")
    with pytest.raises(RecordError, match="output"):
        instruction(row({"instruction": "Say hi"}))


ASQA = {
    "sample_id": "-7",
    "ambiguous_question": "Who won?",
    "qa_pairs": [
        {
            "question": "Who won in 1990?",
            "short_answers": ["Ann", "A."],
            "context": "Ann won.",
            "wikipage": "Cup",
        },
        {
            "question": "Who won in 1991?",
            "short_answers": ["Bo"],
            "context": "No context provided",
            "wikipage": None,
        },
    ],
    "annotations": [{"long_answer": "Ann in 1990, Bo in 1991."}, {"long_answer": "Ann or Bo."}],
}


def test_asqa_steps_are_the_questions_with_a_context() -> None:
    record = asqa_question(row(ASQA))
    assert (record.id, record.question) == ("-7", "Who won?")
    assert record.answers == ["Ann in 1990, Bo in 1991.", "Ann or Bo."]
    assert record.context == [("Cup", ["Ann won."])]
    assert record.question_decomposition == [DecompositionStep("Who won in 1990?", "Ann", 0)]
    assert instructed_question(record, "asqa").endswith("[Long Form] Who won?")
    columns = {name: [pair[name] for pair in ASQA["qa_pairs"]] for name in ASQA["qa_pairs"][0]}
    assert asqa_question(row({**ASQA, "qa_pairs": columns})) == record


def test_asqa_without_an_answer_is_named() -> None:
    with pytest.raises(RecordError, match="annotations"):
        asqa_question(row({**ASQA, "annotations": []}))


def test_their_names_are_sources() -> None:
    assert {"arc", "asqa", "instructions"} <= set(QUESTION_SOURCES)
