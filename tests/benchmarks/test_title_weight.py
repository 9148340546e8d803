"""The benchmark of BM25's title weight, where a passage is found by its title alone."""

from pathlib import Path

from models.formats.records import PassageRecord, QuestionRecord, write_records
from models.formats.triples import Triple
from tests.benchmarks.commands import last_json, run_benchmark


def test_a_heavier_title_finds_the_passage_about_the_entity(tmp_path: Path) -> None:
    own = PassageRecord("1", "Ada", "She was born in Rome and worked there for many long years.")
    other = PassageRecord("2", "Films", "Ada met a director.")
    rest = [PassageRecord(str(n), f"Lake {n}", "A lake with water.") for n in range(3, 40)]
    rest += [PassageRecord(str(n), f"Play {n}", "It has a director.") for n in range(40, 50)]
    write_records(tmp_path / "corpus.jsonl", [own, other, *rest])
    question = QuestionRecord(
        "q", "Who is the director of Ada?", "Bo", supporting_facts=[("Ada", 0)],
        context=[("Ada", [own.text])], evidences=[Triple("Ada", "director", "Bo")],
    )  # fmt: skip
    write_records(tmp_path / "questions.jsonl", [question])
    done = run_benchmark(
        "title_weight.py", "--questions", str(tmp_path / "questions.jsonl"),
        "--corpus", str(tmp_path / "corpus.jsonl"), "--weights", "1", "8",
    )  # fmt: skip
    light, heavy = last_json(done)["rows"]
    assert (light["title_weight"], heavy["title_weight"]) == (1, 8)
    assert light["entity_recall@1"] == 0.0 and heavy["entity_recall@1"] == 1.0
    assert light["question_recall@5"] == heavy["question_recall@5"] == 1.0
