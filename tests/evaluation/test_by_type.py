"""Scores by question type."""

from evaluation.significance import places_by_type, scores_by_type, type_rows


def test_all_types_are_listed_as_they_first_come() -> None:
    assert places_by_type(["b", "", "a", "b"]) == {"b": [0, 3], "(none)": [1], "a": [2]}


def test_scores_are_means_of_each_type() -> None:
    rows = [
        {"type": "b", "em": 1.0, "f1": 1.0},
        {"type": "a", "em": 0.0, "f1": 0.25},
        {"type": "b", "em": 0.0, "f1": 0.5},
        {"em": 0.0, "f1": 0.0},
    ]
    found = scores_by_type(rows)
    assert found == {
        "b": {"n": 2, "em": 0.5, "f1": 0.75},
        "a": {"n": 1, "em": 0.0, "f1": 0.25},
        "(none)": {"n": 1, "em": 0.0, "f1": 0.0},
    }
    assert type_rows(found)[0] == ["b", 2, 0.5, 0.75]
    assert scores_by_type([]) == {}
