"""Scores by question type: every type that occurs, with how many questions it has."""

from collections.abc import Mapping, Sequence
from typing import Any

UNTYPED = "(none)"
COLUMNS = ("type", "questions", "EM", "F1")


def type_name(name: str) -> str:
    """The name of a type in tables and results; `(none)` for a question without one."""
    return name or UNTYPED


def places_by_type(types: Sequence[str]) -> dict[str, list[int]]:
    """The places of each type's questions, the types in the order in which they first come."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(types):
        places.setdefault(type_name(name), []).append(place)
    return places


def scores_by_type(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """`{type: {n, em, f1}}` of scored traces, means in 0 to 1."""
    places = places_by_type([row.get("type") or "" for row in rows])
    return {
        name: {
            "n": len(own),
            "em": sum(rows[place]["em"] for place in own) / len(own),
            "f1": sum(rows[place]["f1"] for place in own) / len(own),
        }
        for name, own in places.items()
    }


def type_rows(by_type: Mapping[str, Mapping[str, float]]) -> list[list[Any]]:
    """A row for each of `COLUMNS` a type."""
    return [[name, own["n"], own["em"], own["f1"]] for name, own in by_type.items()]
