"""Traces of an evaluation that never was, drawn from a seed, in the form of real ones."""

import json
import random
from pathlib import Path
from typing import Any

NAMES = ("Ana Lis", "Bo Brandt", "Carl Ek", "Dora Falk", "Eva Gram", "Finn Holt")
PLACES = ("Brill", "Odense", "Tarn", "Vejle", "West Brill", "Lund")
FILMS = ("Dawn", "The Long Pier", "Harbour Light", "A Quiet Field", "Nightfall", "Salt")
TYPES = ("compositional", "comparison", "inference")
LOST = ("plan", "retrieval", "extraction", "answer")
Json = dict[str, Any]


def made_traces(count: int, seed: int = 0) -> list[Json]:
    """Traces of questions that ask for the birthplace of a film's director."""
    draw = random.Random(seed)
    return [_trace(number, draw) for number in range(count)]


def made_corpus(traces: list[Json]) -> list[Json]:
    """The passages that the traces found, each a sentence before and one behind the cited one."""
    sentences = {
        citation["passage"]: citation
        for trace in traces
        for step in trace["steps"]
        for citation in step["citations"]
    }
    return [
        {
            "id": citation["passage"],
            "title": citation["title"],
            "text": f"It is told of often. {citation['sentence']} That is all.",
        }
        for citation in sentences.values()
    ]


def write_lines(path: Path, records: list[Json]) -> Path:
    """Write JSON Lines and return the path."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def step(passage: str, subquery: str, triple: list[str], decision: str) -> Json:
    """A round that found one triple in one passage."""
    subject, predicate, object_ = triple
    sentence = f"The {predicate} of {subject} is {object_}."
    return {
        "subquery": subquery,
        "passages": [{"id": passage, "title": subject}, {"id": "other", "title": "Another one"}],
        "triples": [triple],
        "decision": decision,
        "citations": [{"passage": passage, "title": subject, "sentence": sentence}],
    }


def _trace(number: int, draw: random.Random) -> Json:
    film, name, place = f"{draw.choice(FILMS)} {number}", draw.choice(NAMES), draw.choice(PLACES)
    outcome = draw.choice(("right", "partly", "wrong"))
    gold = {"right": place, "partly": f"{place} in the north", "wrong": "Nowhere"}[outcome]
    first = ["director", "screenwriter"][number % 2]
    ask, then = f"Who is the {first} of {film}?", f"Where was {name} born?"
    return {
        "id": f"q{number}",
        "type": draw.choice(TYPES),
        "answers": [gold],
        "em": float(outcome == "right"),
        "f1": {"right": 1.0, "partly": 0.4, "wrong": 0.0}[outcome],
        "recall": 1.0,
        "stage": "correct" if outcome == "right" else draw.choice(LOST),
        "question": f"Where was the {first} of {film} born?",
        "answer": place,
        "steps": [
            step(f"f{number}", ask, [film, first, name], f"[SUBQ] {then}"),
            step(f"n{number}", then, [name, "place of birth", place], "[SUFFICIENT]"),
        ],
        "graph": [[film, first, name], [name, "place of birth", place]],
        "notes": [],
        "error": None,
        "bill": {
            "llm_calls": 4,
            "input_tokens": 1679,
            "output_tokens": 38,
            "seconds": {"plan": 1.5, "retrieve": 0.25},
            "weighted_tokens": 1831,
        },
    }
