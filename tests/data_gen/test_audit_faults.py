"""Every fault that an audit knows, planted alone in a clean set, is found and nothing else is."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_gen.audits.findings import Choice, Severity
from tests.data_gen.audited_sets import (
    by_id,
    clean_conditions,
    clean_ras,
    clean_triples,
    findings,
    found,
    sample,
    write_lines,
    write_set,
)
from tests.data_gen.planted_faults import FAULTS, names_answer, nothing_came, other_things_came


def test_clean_sets_have_no_finding(tmp_path: Path) -> None:
    assert found(write_set(tmp_path / "ras", clean_ras())) == {}
    assert found(write_set(tmp_path / "triples", clean_triples())) == {}
    assert found(write_set(tmp_path / "conditions", clean_conditions())) == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_is_found_once_and_nothing_else(fault: str, tmp_path: Path) -> None:
    plant, name, severity = FAULTS[fault]
    splits = clean_ras()
    plant(splits, 1)
    every = findings(write_set(tmp_path, splits))
    bad = {n: f.count for n, f in every.items() if f.severity is not Severity.OK}
    assert bad == {name: 1}
    assert every[name].severity is severity
    assert every[name].of >= 1 and every[name].examples


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 9))
def test_faults_planted_together_are_each_counted(
    tmp_path: Path, data: st.DataObject, seed: int
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(FAULTS)), unique=True, max_size=8))
    splits = clean_ras(questions=30)
    expected: dict[str, int] = {}
    for number, fault in enumerate(chosen):
        plant, name, _ = FAULTS[fault]
        plant(splits, number)
        expected[name] = expected.get(name, 0) + 1
    folder = write_set(tmp_path, splits)
    assert found(folder, choice=Choice(1, seed)) == expected


def test_test_questions_are_found_by_id_and_by_wording(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", clean_ras())
    tests = [
        {"id": "one0", "question": "Another?", "answer": "x"},
        {"id": "t", "question": "where was the director of zone2 born", "answer": "x"},
        {"id": "t2", "question": "Not there?", "answer": "x"},
    ]
    exclude = [write_lines(tmp_path / "test.jsonl", tests)]
    assert found(folder, exclude=exclude) == {"test_question": 1, "test_question_wording": 1}


def test_a_task_instruction_does_not_hide_a_test_question(tmp_path: Path) -> None:
    splits = clean_ras()
    question = "Which is true? Output A, B, C, or D. Why?\nA: so\nB: no"
    splits["train"].append(sample("arc/plan/0", "plan", question, [], "[NO_RETRIEVAL]"))
    test = {"id": "t", "question": "Why?", "choices": {"1": "so", "2": "no"}, "answer": "2"}
    exclude = [write_lines(tmp_path / "test.jsonl", [test])]
    folder = write_set(tmp_path / "set", splits)
    assert found(folder, exclude=exclude) == {"test_question_wording": 1}


def test_answers_of_source_questions_are_looked_for_too(tmp_path: Path) -> None:
    splits = clean_ras()
    names_answer(splits, 1)
    answer = by_id(splits, "two1/answer")
    splits["train"].remove(answer)
    folder = write_set(tmp_path / "set", splits)
    assert found(folder) == {}
    record = {"id": "two1", "question": "?", "answer": ["Elsewhere", "the Brill1"]}
    questions = [write_lines(tmp_path / "questions.jsonl", [record])]
    assert found(folder, questions=questions) == {"subquery_names_answer": 1}


def test_a_name_that_no_passage_holds_is_told_from_a_missed_one(tmp_path: Path) -> None:
    splits = clean_ras()
    other_things_came(splits, 0)
    other_things_came(splits, 1)
    passage = {"id": "p", "title": "", "text": "A list: Lake, the Roe1 (poet)."}
    corpus = [write_lines(tmp_path / "corpus.jsonl", [passage])]
    folder = write_set(tmp_path / "set", splits)
    assert found(folder, corpora=corpus) == {"retrieval_elsewhere": 2, "no_document": 1}


def test_more_than_a_tenth_of_steps_without_support_are_an_error(tmp_path: Path) -> None:
    splits = clean_ras(questions=20)
    other_things_came(splits, 0)
    nothing_came(splits, 1)
    every = findings(write_set(tmp_path / "few", splits))
    assert every["retrieval_elsewhere"].severity is Severity.WARNING
    other_things_came(splits, 2)
    every = findings(write_set(tmp_path / "many", splits))
    for name, count in (("retrieval_elsewhere", 2), ("empty_retrieval", 1)):
        assert every[name].severity is Severity.ERROR
        assert (every[name].count, every[name].of) == (count, 20)
