"""Every fault that an audit knows, planted alone in a clean set, is found and nothing else is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_gen.audits.findings import Choice, Finding, Severity
from data_gen.audits.inputs import split_files
from data_gen.audits.run import Audit, Settings
from data_gen.builds.cards import token_counter
from tests.data_gen.audited_sets import (
    CARD,
    Record,
    Splits,
    by_id,
    clean_conditions,
    clean_ras,
    clean_triples,
    film_text,
    no_hop,
    one_hop,
    sample,
    two_hops,
    write_lines,
    write_set,
)

LABEL, HISTORY = "label", "history"


def findings(folder: Path, **options: Any) -> dict[str, Finding]:
    """All findings of a folder, by name, lengths in words."""
    count_tokens, _ = token_counter("words")
    outcome = Audit(split_files([str(folder)]), Settings(count_tokens, **options)).run()
    return {finding.name: finding for finding in outcome.findings}


def found(folder: Path, **options: Any) -> dict[str, int]:
    """What was found and how often; what is fine is left out."""
    every = findings(folder, **options)
    return {n: f.count for n, f in every.items() if f.severity is not Severity.OK}


# Each takes a clean set and plants one fault in question number `n`.
def broken(splits: Splits, n: int) -> None:
    del by_id(splits, f"one{n}/plan/0")["question"]


def not_json(splits: Splits, n: int) -> None:
    splits["train"].append('{"id": "cut off')


def half_a_surrogate(splits: Splits, n: int) -> None:
    by_id(splits, f"one{n}/answer")[LABEL] = "\ud800"


def blank_label(splits: Splits, n: int) -> None:
    by_id(splits, f"one{n}/answer")[LABEL] = " "


def blank_triple(splits: Splits, n: int) -> None:
    by_id(splits, f"one{n}/answer")[HISTORY][0]["triples"][0][1] = ""


def no_plan(splits: Splits, n: int) -> None:
    by_id(splits, f"one{n}/plan/1")[LABEL] = "[SUFFICIENT] Who wrote it?"


def enough_of_nothing(splits: Splits, n: int) -> None:
    by_id(splits, f"one{n}/plan/0")[LABEL] = "[SUFFICIENT]"


def step_in_other_split(splits: Splits, n: int) -> None:
    moved = by_id(splits, f"two{n}/plan/1")
    splits["train"].remove(moved)
    splits["dev"].append(moved)


def same_words_in_other_split(splits: Splits, n: int) -> None:
    question = f"who wrote the novel  TIDE{n}"
    splits["dev"].append(sample("alias/plan/0", "plan", question, [], f"[SUBQ] {question}"))


def two_labels(splits: Splits, n: int) -> None:
    other = by_id(splits, f"two{n}/answer")
    splits["train"].append({**other, "id": "twin/answer", LABEL: "Elsewhere"})


def sample_twice(splits: Splits, n: int) -> None:
    splits["train"].append({**by_id(splits, f"none{n}/answer"), "id": "again/answer"})


def id_twice(splits: Splits, n: int) -> None:
    by_id(splits, f"none{n}/answer")["id"] = f"one{n}/answer"


def asks_again(splits: Splits, n: int) -> None:
    plan = by_id(splits, f"two{n}/plan/1")
    plan[LABEL] = f"[SUBQ] {plan['question'].upper()}"


def asks_again_behind(splits: Splits, n: int) -> None:
    asks_again(splits, n)
    ask_first(by_id(splits, f"two{n}/plan/1"))


def names_answer_behind(splits: Splits, n: int) -> None:
    names_answer(splits, n)
    ask_first(by_id(splits, f"two{n}/plan/1"))


def ask_first(plan: dict[str, Any]) -> None:
    """Put another subquery in front of a plan's own, in the same plan."""
    plan[LABEL] = f"[SUBQ] Who else was there?\n{plan[LABEL]}"


def shows_twice(splits: Splits, n: int) -> None:
    steps = by_id(splits, f"two{n}/answer")[HISTORY]
    steps.append(steps[1])


def names_answer(splits: Splits, n: int) -> None:
    by_id(splits, f"two{n}/plan/1")[LABEL] = f"[SUBQ] Who was born in the Brill{n}?"


def names_found_answer(splits: Splits, n: int) -> None:
    by_id(splits, f"two{n}/plan/2")[LABEL] = f"[SUBQ] Where is Brill{n}?"


def second_step(splits: Splits, n: int, triples: list[list[str]]) -> None:
    for state in ("plan/2", "answer"):
        by_id(splits, f"two{n}/{state}")[HISTORY][1]["triples"] = triples


def nothing_new(splits: Splits, n: int) -> None:
    second_step(splits, n, [])
    for state in ("plan/1", "plan/2", "answer"):
        step = by_id(splits, f"two{n}/{state}")[HISTORY][0]
        step["triples"].append([f"Roe{n}", "occupation", "director"])


def nothing_came(splits: Splits, n: int) -> None:
    second_step(splits, n, [])


def other_things_came(splits: Splits, n: int) -> None:
    second_step(splits, n, [["Lake", "place of birth", "Poland"]])


def nothing_suffices(splits: Splits, n: int) -> None:
    by_id(splits, f"one{n}/plan/1")[HISTORY][0]["triples"] = []


def answer_from_nothing(splits: Splits, n: int) -> None:
    by_id(splits, f"one{n}/answer")[HISTORY][0]["triples"] = []


def says_nothing(splits: Splits, n: int) -> None:
    by_id(splits, f"two{n}/answer")[HISTORY][0]["triples"].append([f"Roe{n}", "is", f"the Roe{n}"])


def goes_on_from_nothing(splits: Splits, n: int) -> None:
    by_id(splits, f"two{n}/plan/1")[HISTORY][0]["triples"] = []


FAULTS: dict[str, tuple[Callable[[Splits, int], None], str, Severity]] = {
    function.__name__: (function, name, severity)
    for function, name, severity in [
        (broken, "broken_record", Severity.ERROR),
        (not_json, "broken_record", Severity.ERROR),
        (half_a_surrogate, "broken_record", Severity.ERROR),
        (blank_label, "blank_field", Severity.ERROR),
        (blank_triple, "blank_field", Severity.ERROR),
        (no_plan, "bad_plan_label", Severity.ERROR),
        (enough_of_nothing, "bad_plan_label", Severity.ERROR),
        (step_in_other_split, "question_in_two_splits", Severity.ERROR),
        (same_words_in_other_split, "question_wording_in_two_splits", Severity.ERROR),
        (two_labels, "contradictory_labels", Severity.ERROR),
        (sample_twice, "repeated_sample", Severity.WARNING),
        (id_twice, "repeated_id", Severity.WARNING),
        (asks_again, "repeated_subquery", Severity.ERROR),
        (asks_again_behind, "repeated_subquery", Severity.ERROR),
        (shows_twice, "history_repeats", Severity.WARNING),
        (names_answer, "subquery_names_answer", Severity.ERROR),
        (names_answer_behind, "subquery_names_answer", Severity.ERROR),
        (names_found_answer, "subquery_names_found_answer", Severity.NOTE),
        (nothing_new, "nothing_new", Severity.NOTE),
        (nothing_came, "empty_retrieval", Severity.WARNING),
        (other_things_came, "retrieval_elsewhere", Severity.WARNING),
        (nothing_suffices, "sufficient_without_triples", Severity.ERROR),
        (answer_from_nothing, "answer_without_triples", Severity.WARNING),
        (says_nothing, "self_loop", Severity.WARNING),
        (goes_on_from_nothing, "empty_graph", Severity.NOTE),
    ]
}


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


def test_balance(tmp_path: Path) -> None:
    chains = [record for n in range(4) for record in two_hops(n)]
    single = [record for n in range(4) for record in one_hop(n)]
    direct = [record for n in range(4) for record in no_hop(n)]
    without_direct = write_set(tmp_path / "a", {"train": [*chains, *single]})
    assert set(found(without_direct)) == {"missing_kind", "far_from_paper"}
    counted = write_set(tmp_path / "b", {"train": [*chains, *no_hop(1)]})
    assert set(found(counted)) == {"steps_foretell_label"}
    more = [record for n in range(4, 30) for record in no_hop(n)]
    idle = write_set(tmp_path / "c", {"train": [*chains, *single, *direct, *more]})
    assert set(found(idle)) == {"first_plans_ask_nothing", "far_from_paper"}


def test_lengths_are_held_to_the_limits(tmp_path: Path) -> None:
    splits = clean_ras()
    splits["train"] += [
        sample("long/plan/0", "plan", "word " * 500, [], "[NO_RETRIEVAL]"),
        sample("wide/answer", "answer", "How?", [], "word " * 40),
    ]
    limits = {"max_tokens": 400, "max_label_tokens": 30}
    folder = write_set(tmp_path, splits)
    assert found(folder, **limits) == {"long_prompt": 1, "long_label": 1}
    assert found(folder) == {}


LICENCES: dict[str, tuple[Record | None, dict[str, int]]] = {
    "none": ({"sources": [{"licence": "see the source's records"}]}, {"licence_unknown": 1}),
    "missing": ({"sources": [{"name": "x"}, *CARD["sources"]]}, {"licence_unknown": 1}),
    "part": ({"sources": [{"name": "x", "licence": "MIT; not stated"}]}, {"licence_unknown": 1}),
    "nc": ({"sources": [{"licence": "CC BY-NC-SA 4.0"}]}, {"licence_non_commercial": 1}),
    "no sources": ({"title": "x"}, {"no_sources": 1}),
    "no card": (None, {"no_sources": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", LICENCES)
def test_licences(case: str, tmp_path: Path) -> None:
    card, expected = LICENCES[case]
    assert found(write_set(tmp_path, clean_ras(), card)) == expected


def test_passages_are_held_apart(tmp_path: Path) -> None:
    splits = clean_triples()
    splits["dev"].append(splits["train"][0])
    # The sample is repeated, too.
    assert found(write_set(tmp_path / "id", splits)) == {
        "passage_in_two_splits": 1,
        "repeated_sample": 1,
        "repeated_id": 1,
    }
    splits = clean_triples()
    twin = {**splits["train"][0], "id": "twin", "text": film_text(0).replace(". ", " . ")}
    splits["dev"].append(twin)
    assert found(write_set(tmp_path / "text", splits)) == {"passage_wording_in_two_splits": 1}
    conditions = clean_conditions()
    conditions["dev"].append(conditions["train"].pop(0))
    assert found(write_set(tmp_path / "c", conditions)) == {"passage_in_two_splits": 1}


@pytest.mark.parametrize("make", [clean_triples, clean_conditions])
def test_passages_of_test_questions_are_found_whole_and_cut(
    make: Callable[[], Splits], tmp_path: Path
) -> None:
    splits = make()
    for record in splits["train"]:
        record["text"] = record["text"].replace(" It was shown once.", "")
    title, text = film_text(1).split(": ", 1)
    other, unused = film_text(2).split(": ", 1)
    test = {
        "id": "t", "question": "?", "answer": "x",
        "context": [[title, [text]], [other, [unused]]], "supporting_facts": [[title, 0]],
    }  # fmt: skip
    exclude = [write_lines(tmp_path / "test.jsonl", [test])]
    assert found(write_set(tmp_path / "set", splits), exclude=exclude) == {"test_passage": 1}


def test_labels_of_passages(tmp_path: Path) -> None:
    splits = clean_triples()
    splits["train"].append({**splits["train"][0], "id": "twin", "triples": [["a", "b", "c"]]})
    splits["train"][1]["triples"] = []
    splits["train"][2]["triples"].append(["Roe", "is", "roe"])
    expected = {"contradictory_labels": 1, "no_triples": 1, "self_loop": 1}
    assert found(write_set(tmp_path / "t", splits)) == expected
    conditions = clean_conditions()
    conditions["train"].append({**conditions["train"][0], "id": "film0/7"})
    assert found(write_set(tmp_path / "c", conditions)) == {"repeated_sample": 1}


def test_questions_that_share_facts_with_test_questions_are_found(tmp_path: Path) -> None:
    """By the sources' annotation where `--questions` tells it, by a MuSiQue id in any case."""
    splits = clean_ras()
    splits["train"] += [
        {**record, "id": record["id"].replace("none90", "2hop__7_8")} for record in no_hop(90)
    ]
    folder = write_set(tmp_path / "set", splits)
    facts = {"evidences": [["Zone2", "director", "Roe2"]], "answer": "x"}
    asked = [{"question": "Who wrote it, Tide4?", "answer": "Roe4"}]
    tests = [
        {"id": "2hop__8_9", "question": "First?", "answer": "x"},
        {"id": "t1", "question": "Second?", **facts},
        {"id": "t2", "question": "Third?", "answer": "y", "question_decomposition": asked},
        {"id": "t3", "question": "The novel Tide5: who wrote?", "answer": "Moss5"},
    ]
    sources = [
        {"id": "two2", "question": "Where was the director of Zone2 born?", **facts},
        {"id": "one4", "question": "?", "answer": "z", "question_decomposition": asked},
        {"id": "one5", "question": "Who wrote the novel Tide5?", "answer": "Moss5"},
        {"id": "none1", "question": "What is 1 plus 1?", "answer": "2"},
        {"id": "not in the set", "question": "??", **facts},
    ]
    exclude = [write_lines(tmp_path / "test.jsonl", tests)]
    questions = [write_lines(tmp_path / "sources.jsonl", sources)]
    assert found(folder, exclude=exclude) == {"test_hop": 1}
    every = findings(folder, exclude=exclude, questions=questions)
    shared = {name: every[name].count for name in ("test_hop", "test_triple", "test_paraphrase")}
    assert shared == {"test_hop": 2, "test_triple": 1, "test_paraphrase": 1}
    assert every["test_triple"].of == 4 and every["test_hop"].of == 37
    assert "4 of 37" in every["test_triple"].what
    (place,) = every["test_paraphrase"].examples[0].places
    assert splits["train"][place.line - 1]["id"].startswith("one5/")


def test_helper_samples_are_audited(tmp_path: Path) -> None:
    rows = [
        {"id": f"q{n}/decompose/0", "task": "decompose", "prompt": f"Who made {n}?", "label": "x"}
        for n in range(8)
    ]
    leaking = {**rows[0], "id": "2hop__7_8/decompose/0", "prompt": "Who made it?"}
    folder = write_set(tmp_path / "set", {"train": [*rows[:6], leaking], "dev": rows[6:]})
    assert found(folder) == {}
    tests = [
        {"id": "2hop__8_9", "question": "First?", "answer": "x"},
        {"id": "q1", "question": "Second?", "answer": "x"},
    ]
    exclude = [write_lines(tmp_path / "test.jsonl", tests)]
    assert found(folder, exclude=exclude) == {"test_question": 1, "test_hop": 1}
    second = {**rows[0], "label": "other"}
    folder = write_set(tmp_path / "again", {"train": [*rows, second], "dev": [rows[0]]})
    assert set(found(folder)) == {
        "question_in_two_splits", "contradictory_labels", "repeated_sample", "repeated_id"
    }  # fmt: skip
