"""Faults to plant in a clean set of planner and answerer samples, and the findings they give."""

from collections.abc import Callable

from data_gen.audits.findings import Severity
from tests.data_gen.audited_sets import Splits, by_id, sample

LABEL, HISTORY = "label", "history"


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
        (shows_twice, "history_repeats", Severity.WARNING),
        (names_answer, "subquery_names_answer", Severity.ERROR),
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
