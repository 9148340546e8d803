"""Facts without a text become passages, and what a reader would find in them."""

from pathlib import Path

import pytest

from data_gen.facts.solving_steps import solving_steps
from data_gen.facts.stand_ins import is_stand_in, stand_in_passages, told_by
from models.formats.passages import AskedPassage
from models.formats.records import (
    DecompositionStep,
    PassageRecord,
    QuestionRecord,
    RasSample,
    read_records,
)
from models.formats.triples import Triple
from tests.data_gen.test_build_commands import write_lines
from tests.data_gen.test_readings import build

SPOUSE = QuestionRecord(
    "m1",
    "Who is the spouse of the Green performer?",
    "Miquette Giraudy",
    question_decomposition=[
        DecompositionStep("Green >> performer", "Steve Hillage"),
        DecompositionStep("#1 >> spouse", "Miquette Giraudy"),
    ],
)
EVIDENCE = QuestionRecord(
    "e1", "Who directed Dawn?", "Ana Lis", evidences=[Triple("Dawn", "director", "Ana Lis")]
)


def stand_ins(*records: QuestionRecord, known: tuple[str, ...] = ()) -> dict[str, PassageRecord]:
    return {p.title: p for p, _ in stand_in_passages(records, known, None)}


def test_each_step_without_text_has_a_passage_and_the_steps_find_it() -> None:
    passages = stand_ins(SPOUSE, EVIDENCE)
    first, second = solving_steps(SPOUSE, passages)
    assert first.passage == passages["Who is the performer of Green?"]
    assert second.passage == passages["Who is the spouse of Steve Hillage?"]
    assert second.passage.text == "Miquette Giraudy"
    [fact] = solving_steps(EVIDENCE, passages)
    assert fact.passage == passages["Dawn"]
    assert all(map(is_stand_in, passages.values()))
    assert not is_stand_in(PassageRecord("1", "Dawn", "A film."))


def test_what_has_a_text_has_no_stand_in() -> None:
    told = QuestionRecord(
        "m2", "Who?", "x", context=[("A", ["x."])],
        question_decomposition=[DecompositionStep("Green >> performer", "Steve Hillage", 0)],
    )  # fmt: skip
    assert stand_ins(told) == {}
    assert stand_ins(EVIDENCE, known=("Dawn",)) == {}


def test_a_fact_is_told_to_whoever_asks_for_it() -> None:
    [(passage, triples)] = stand_in_passages([EVIDENCE], (), None)
    more = [*triples, Triple("Dawn", "country", "Peru")]
    assert told_by(passage, more, "Who directed Dawn?") == triples
    assert told_by(passage, more, "Which country is Dawn in?") == [more[1]]


def test_another_question_is_led_there_in_half_of_the_draws() -> None:
    [(passage, triples)] = stand_in_passages([EVIDENCE], (), None)
    found = [told_by(passage, triples, "Who taught Dawn's director?", seed) for seed in range(400)]
    assert all(own in ([], triples) for own in found)
    assert 150 < found.count([]) < 250


def test_a_build_on_readings_needs_no_reading_of_stand_ins(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "questions.jsonl", [SPOUSE.to_json()])
    given = ("--source", f"musique={source}")
    # The builder's other source is a question without passages too.
    other = write_lines(tmp_path / "evidence.jsonl", [EVIDENCE.to_json()])
    build(tmp_path / "annotated", other, *given, "--asked", tmp_path / "asked.jsonl")
    assert list(read_records(tmp_path / "asked.jsonl", AskedPassage)) == []
    samples = build(tmp_path / "read", other, *given, "--readings", tmp_path / "asked.jsonl")
    last = [s for s in samples if s.question_id == "m1" and s.task == "answer"]
    [sample] = last
    assert Triple("Steve Hillage", "spouse", "Miquette Giraudy") in sample.history[-1].triples


@pytest.mark.parametrize("answer", ["Ana Lis", ""])
def test_a_read_passage_is_a_question_of_one_step(answer: str, tmp_path: Path) -> None:
    record = {
        "id": "r1",
        "question": "who directed dawn",
        "answer": answer,
        "passage": "By Ana Lis.",
    }
    source = write_lines(tmp_path / "reading.jsonl", [record])
    asked = tmp_path / "asked.jsonl"
    empty = write_lines(tmp_path / "none.jsonl", [EVIDENCE.to_json()])
    given = ("--source", f"reading={source}")
    build(tmp_path / "annotated", empty, *given, "--asked", asked)
    [one] = read_records(asked, AskedPassage)
    assert one.subquery == "who directed dawn"
    samples = build(tmp_path / "read", empty, *given, "--readings", asked)
    own = [s for s in samples if s.question_id == "r1"]
    labels = [s.label for s in sorted(own, key=lambda s: (s.task == "answer", len(s.history)))]
    assert labels == ["[SUBQ] who directed dawn", "[SUFFICIENT]", answer or "nothing"]


def test_questions_that_want_more_than_a_span_are_passed_over(tmp_path: Path) -> None:
    record = {
        "id": "r1",
        "question": "q?",
        "answer": "yes",
        "passage": "p",
        "answer_form": "yes/no",
    }
    source = write_lines(tmp_path / "reading.jsonl", [record])
    other = write_lines(tmp_path / "none.jsonl", [EVIDENCE.to_json()])
    samples = build(tmp_path / "out", other, "--source", f"reading={source}")
    assert {sample.question_id for sample in samples} == {"e1"}
    assert all(isinstance(sample, RasSample) for sample in samples)
