"""What training data may not share with a test question, rule by rule, and on the public data."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import RecordError
from data_gen.builds.triples import TriplesReading
from data_gen.facts.held_out import HeldOutQuestions, Leak, component_ids, leak_keys
from data_gen.sources.open_source import read_questions
from models.formats.records import DecompositionStep, QuestionRecord
from models.formats.triples import Triple
from tests.shared_data import shared_data_file


def steps(*pairs: tuple[str, str]) -> list[DecompositionStep]:
    return [DecompositionStep(question, answer, None) for question, answer in pairs]


TEST = QuestionRecord(
    "3hop1__11_22_33",
    "Where was the mother of the director of Dawn born?",
    "Bonn",
    evidences=[
        Triple("Dawn", "director", "Ana Lis"),
        Triple("Ana Lis", "mother", "Eva Lis"),
        Triple("Eva Lis", "place of birth", "Bonn"),
    ],
    question_decomposition=steps(
        ("Dawn >> director", "Ana Lis"), ("Who is #1's mother?", "Eva Lis"),
        ("#2 >> place of birth", "Bonn"),
    ),
)  # fmt: skip
OTHER = QuestionRecord("o", "Who wrote Tide?", "Moss")
LEAKS: dict[str, tuple[QuestionRecord, Leak | None]] = {
    "the same id": (replace(OTHER, id=TEST.id), Leak.ID),
    "the same words": (
        replace(OTHER, question="where was the mother of the director of DAWN born", answer=""),
        Leak.WORDING,
    ),
    "a component": (replace(OTHER, id="2hop__99_22"), Leak.HOP),
    "the first component": (replace(OTHER, id="data/2hop__11_98"), Leak.HOP),
    "a number that is no whole component": (replace(OTHER, id="2hop__1_222"), None),
    "an id that only looks alike": (replace(OTHER, id="hop__11_22"), None),
    "a hop in words": (
        replace(
            OTHER,
            question_decomposition=steps(("x?", "Ana Lis"), ("who is #1's mother", "eva lis")),
        ),
        Leak.HOP,
    ),
    "a hop with another answer": (
        replace(OTHER, question_decomposition=steps(("Who is Ana Lis's mother?", "Ida Lis"))),
        None,
    ),
    "a hop without an answer": (
        replace(OTHER, question_decomposition=steps(("Who is Ana Lis's mother?", ""))),
        None,
    ),
    "a hop as a whole question": (
        replace(OTHER, question="Who is Ana Lis's mother?", answer="Eva Lis"), Leak.HOP,
    ),
    "the last triple": (
        replace(OTHER, evidences=[Triple("Eva Lis", "place of birth", "Bonn")]), Leak.TRIPLE,
    ),
    "a bridge": (
        replace(OTHER, evidences=[Triple("dawn", "Director", "Ana Lis.")]), Leak.TRIPLE,
    ),
    "the same relation of another": (
        replace(OTHER, evidences=[Triple("Ida Lis", "place of birth", "Bonn")]), None,
    ),
    "a triple as a hop": (
        replace(OTHER, question_decomposition=steps(("Eva Lis >> place of birth", "Bonn"))),
        Leak.HOP,
    ),
    "the same answers": (
        replace(
            OTHER,
            question_decomposition=steps(("a", "Ana Lis"), ("b", "Eva Lis"), ("c", "Bonn")),
        ),
        Leak.PARAPHRASE,
    ),
    "one same answer": (replace(OTHER, question_decomposition=steps(("c", "Bonn"))), None),
    "the same content words": (
        replace(OTHER, question="Dawn: the director has a mother. Born where?", answer="Bonn"),
        Leak.PARAPHRASE,
    ),
    "these with another answer": (
        replace(OTHER, question="Dawn: the director has a mother. Born where?", answer="Ulm"),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LEAKS)
def test_what_shares_something_with_a_test_question_has_a_reason(case: str) -> None:
    record, expected = LEAKS[case]
    assert HeldOutQuestions([TEST]).reason(record) is expected


def test_a_test_question_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"id": "a", "question": "Who?", "answer": "Ana"}\n{"id": "b"}\n')
    with pytest.raises(RecordError, match=r"test.jsonl:2: field 'answer'"):
        HeldOutQuestions.of_files([path])


def test_text_builders_name_it_too(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"id": "a", "question": "Who?", "answer": "Ana"}\n{"id": "b"}\n')
    options = argparse.Namespace(exclude=[path], skip_bad=True)
    with pytest.raises(RecordError, match=r"test.jsonl:2: field 'answer'"):
        TriplesReading(options, tmp_path)


def test_nothing_is_left_out_without_test_questions() -> None:
    assert not HeldOutQuestions()
    assert HeldOutQuestions().reason(TEST) is None
    assert HeldOutQuestions([OTHER]).reason(TEST) is None


def test_components_of_musique_ids() -> None:
    assert component_ids("2hop__460946_294723") == ["460946", "294723"]
    assert component_ids("4hop3__1_2_3_4") == ["1", "2", "3", "4"]
    assert component_ids("e93c07e8084f11ebbd56ac1f6bf848b6") == []


names = st.sampled_from(["Ann", "Bo", "Cy", "Di"])
records = st.builds(
    QuestionRecord,
    id=st.sampled_from(["a", "b", "2hop__1_2", "2hop__2_3", "3hop1__4_5_1"]),
    question=st.sampled_from(["Who?", "who", "Where is Ann?", "Ann is where?"]),
    answer=st.one_of(names, st.just("")),
    evidences=st.lists(st.builds(Triple, names, st.just("knows"), names), max_size=2),
    question_decomposition=st.lists(
        st.builds(DecompositionStep, st.just("#1 >> knows"), names, st.none()), max_size=3
    ),
)


@given(records, records)
def test_sharing_is_mutual_and_a_question_shares_with_itself(
    one: QuestionRecord, other: QuestionRecord
) -> None:
    there, back = HeldOutQuestions([one]).reason(other), HeldOutQuestions([other]).reason(one)
    assert (there is None) == (back is None)
    assert (there is None) == (
        not {k for _, k in leak_keys(one)} & {k for _, k in leak_keys(other)}
    )
    assert HeldOutQuestions([one]).reason(one) is Leak.ID


@pytest.mark.parametrize(
    ("source", "path", "expected"),
    [
        ("musique", "extra/musique_decompositions", {Leak.HOP: 420}),
        ("musique", "qa/musique_train", {Leak.HOP: 16}),
        ("2wikimultihopqa", "extra/2wikimultihopqa_evidences", {Leak.TRIPLE: 45}),
    ],
)
def test_the_leaks_of_the_public_data_are_found(
    source: str, path: str, expected: dict[Leak, int]
) -> None:
    tests = [
        shared_data_file(f"qa/{name}_test.jsonl")
        for name in ("hotpotqa", "2wikimultihopqa", "musique")
    ]
    held_out = HeldOutQuestions.of_files(tests)
    found: dict[Leak, int] = {}
    for record in read_questions(source, shared_data_file(f"{path}.jsonl"), lambda error: None):
        if leak := held_out.reason(record):
            found[leak] = found.get(leak, 0) + 1
    assert found == expected


def test_paraphrases_in_the_public_data_are_found() -> None:
    """Two of these decompositions are test questions with their steps in another order."""
    held_out = HeldOutQuestions.of_files([shared_data_file("qa/musique_test.jsonl")])
    path = shared_data_file("extra/musique_decompositions.jsonl")
    by_id = {record.id: record for record in read_questions("musique", path, lambda error: None)}
    found = [record for record in by_id.values() if "Rotrude" in record.question]
    for record in (by_id["3hop2__222979_132957_40768"], *found):
        assert held_out.reason(record) is not None
    # By its words and answer alone, too.
    bare = replace(by_id["3hop2__222979_132957_40768"], id="x", question_decomposition=[])
    assert held_out.reason(bare) is Leak.PARAPHRASE
