"""benchmarks/sentence_ranking.py: what links and names bring, on a case made for them."""

import json
from pathlib import Path

import pytest

from benchmarks.sentence_ranking import measure
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.records import QuestionRecord, write_records
from tests.benchmarks.commands import last_json, run_benchmark


def record(number: int) -> QuestionRecord:
    """A question whose second fact is told of a person that only the first sentence names."""
    film, person = f"Film Number{number}", f"Ana Lis{number}"
    return QuestionRecord(
        f"q{number}",
        f"Where was the director of {film} born?",
        "Brill",
        context=[
            (film, [f"It was made by {person}."]),
            (person, ["A native of Brill.", "A painter."]),
        ],
        supporting_facts=[(film, 0), (person, 0)],
    )


def test_names_and_links_find_what_similarity_does_not() -> None:
    figures = measure([record(number) for number in range(40)], load_sentence_encoder("hash"))
    assert (figures["questions"], figures["sentences"]) == (40, 120)
    paper, both = figures["paper"], figures["links and names"]
    assert both["recall"] > paper["recall"] + 0.1 and both["all"] > paper["all"] + 0.2


@pytest.mark.slow
def test_the_command_and_a_data_set_without_supporting_facts(tmp_path: Path) -> None:
    write_records(tmp_path / "some.jsonl", [record(1), record(2)])
    given = ("--dataset", str(tmp_path / "some.jsonl"), "--encoder", "hash")
    result = last_json(run_benchmark("sentence_ranking.py", *given))
    assert (result["dataset"], result["questions"]) == ("some", 2)
    (tmp_path / "none.jsonl").write_text(json.dumps({"id": "a", "question": "?", "answer": "b"}))
    done = run_benchmark("sentence_ranking.py", "--dataset", str(tmp_path / "none.jsonl"))
    assert done.returncode == 1 and "has no supporting facts" in done.stderr
