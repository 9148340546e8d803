"""Synthetic source files of any size: texts with triples, and two-hop questions with contexts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TOWNS = ("Montreal", "Lyon", "Odense", "Pesmes", "Quebec", "Turin", "Ghent", "Bergen")
_TRADES = ("film director", "poet", "composer", "actor", "painter")
_FIRST = ("Ada", "Bo", "Cy", "Dana", "Eli", "Fay", "Gil", "Hana", "Ivo", "Jo")
_LAST = ("Brandt", "Lind", "Roe", "Marsh", "Okafor", "Silva", "Tanaka", "Weiss", "Novak")
# Planner and answerer samples that a question gives, on average.
SAMPLES_OF_A_QUESTION = 3.2


def write_texts(path: Path, count: int) -> None:
    """`count` rows in WikiOFGraph's form, each text different."""
    _write_lines(path, (_text(number) for number in range(count)))


def write_questions(path: Path, count: int) -> None:
    """`count` questions in our contract, each about passages of its own and one of another's."""
    _write_lines(path, (_question(number) for number in range(count)))


def _write_lines(path: Path, records: Iterator[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8") as handle:
        for record in records:
            handle.write(json.dumps(record) + "\n")


def _name(number: int) -> str:
    first, last = _FIRST[number % 10], _LAST[number // 10 % 9]
    return f"{first} {last} {number:x}"


def _text(number: int) -> dict[str, Any]:
    name, town, trade = _name(number), _TOWNS[number % 8], _TRADES[number % 5]
    facts = ((name, "lives in", town), (name, "occupation", trade), (town, "part of", "Europe"))
    triplet = ", ".join(f"(<S> {s}| <P> {p}| <O> {o})" for s, p, o in facts)
    text = f"{name}, who has been a {trade} since {1900 + number % 100}, lives in {town}, Europe."
    return {"triplet": triplet, "text": text}


def _film(number: int) -> tuple[str, str]:
    title = f"The Pier {number:x}"
    lead = f"{title} is a {1930 + number % 90} French drama film directed by {_name(number)}."
    return title, f"{lead} It was shot in {_TOWNS[number % 8]} within {number % 60 + 5} days."


def _person(number: int) -> tuple[str, str]:
    name, town = _name(number), _TOWNS[number % 8]
    born = f"{number % 27 + 1} May {1901 + number % 90}"
    text = f"{name} (born {born} in {town}) is a Canadian {_TRADES[number % 5]}."
    return name, f"{text} The family had moved there a few years before."


def _question(number: int) -> dict[str, Any]:
    (title, lead), (name, life) = _film(number), _person(number)
    other, about = _film(number * 7 + 1)
    town = _TOWNS[number % 8]
    return {
        "id": f"q{number}",
        "question": f"Where was the director of {title} born?",
        "answer": town,
        "type": "compositional",
        "context": [[title, [lead]], [name, [life]], [other, [about]]],
        "supporting_facts": [[title, 0], [name, 0]],
        "evidences": [[title, "director", name], [name, "place of birth", town]],
    }
