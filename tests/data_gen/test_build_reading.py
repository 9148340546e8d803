"""build_reading.py as it is run: read passages, hops of questions and texts with triples."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.formats.reading import parse_reading
from models.formats.records import InstructionSample, read_records
from models.formats.triples import Triple
from tests.data_gen.test_build_commands import question, run, write_lines
from tests.shared_data import shared_data_file

QUICK = ("--tokenizer", "words", "--json", "--fractions", "0.7,0.3,0")
RADIUM = "Radium was discovered by Marie Curie in 1898."


def build(folder: Path, *arguments: str | Path) -> tuple[dict[str, Any], list[InstructionSample]]:
    """Run the command; its card and all samples."""
    done = run("build_reading.py", *arguments, "--out", folder, *QUICK, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    splits = {
        name: list(read_records(folder / f"{name}.jsonl", InstructionSample))
        for name in ("train", "dev")
    }
    assert {name: len(samples) for name, samples in splits.items()} | {"test": 0} == card["splits"]
    owners = [{s.source_id.split("/")[0] for s in samples} for samples in splits.values()]
    assert not owners[0] & owners[1]
    return card, [sample for samples in splits.values() for sample in samples]


def read_passage(number: int, **changed: str) -> dict[str, Any]:
    record = {
        "id": f"set/{number}",
        "question": f"Who discovered radium, asked {number} times?",
        "answer": "Marie Curie",
        "title": f"Page {number // 2}",
        "passage": RADIUM,
        "source": "a" if number % 2 else "b",
        "dataset": "Set",
        "licence": "MIT",
    }
    return {**record, **changed}


def test_read_passages(tmp_path: Path) -> None:
    odd = [
        read_passage(90, answer="Pierre Curie"),
        read_passage(91, answer="yes", answer_form="yes/no"),
        read_passage(92, answer=""),
        read_passage(93, answer="Marie Curie; 1898"),
    ]
    data = write_lines(tmp_path / "read.jsonl", [*map(read_passage, range(20)), *odd])
    card, samples = build(tmp_path / "out", "--source", f"reading={data}")
    by_id = {sample.id.split("/")[1]: sample for sample in samples}
    assert len(samples) == 22
    assert by_id["set_92"].label == "nothing"
    assert parse_reading(by_id["set_93"].label).answers == ("Marie Curie", "1898")
    assert by_id["set_3"].label == "Marie Curie"
    assert f"Passage: Page 1: {RADIUM}\n" in by_id["set_3"].prompt
    assert card["counts"]["passages left out: no span answers"] == 2
    [source] = card["sources"]
    assert source["subsets"]
    capped, fewer = build(tmp_path / "fewer", "--source", f"reading={data}", "--per-data-set", "3")
    assert (capped["counts"]["samples of a"], len(fewer)) == (3, 6)


def test_altered_questions_are_answered_with_nothing(tmp_path: Path) -> None:
    passage = "Radium was found by Marie Curie in 1898. In 1903 she went to Stockholm."
    rows = [
        read_passage(n, question=f"Who found radium in 1898, asked {n} times?", passage=passage)
        for n in range(20)
    ]
    data = write_lines(tmp_path / "read.jsonl", rows)
    arguments = ("--source", f"reading={data}", "--altered-rate")
    card, samples = build(tmp_path / "out", *arguments, "1")
    altered = [sample for sample in samples if sample.label == "nothing"]
    assert len(altered) == card["counts"]["questions altered"] == 20
    assert all("radium in 1903, asked" in sample.prompt for sample in altered)
    card, some = build(tmp_path / "some", *arguments, "0.4")
    assert 0 < card["counts"]["questions altered"] < 20
    assert {s.id for s in some} < {s.id for s in samples}


def test_hops_and_first_rounds(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "q.jsonl", [question(number) for number in range(12)])
    test = write_lines(tmp_path / "test.jsonl", [{**question(3), "evidences": []}])
    arguments = ("--source", f"2wikimultihopqa={data}", "--exclude", test, "--nothing-rate", "1")
    card, samples = build(tmp_path / "out", *arguments)
    own = {s.prompt.split("\n")[0] + s.prompt.split("\n")[1][:16]: s.label for s in samples}
    assert not any(s.source_id == "q3" for s in samples)
    assert card["counts"]["left out: a test question"] == 1
    asked = "Question: Where was the director of Zone 1 born?"
    assert own["Question: Who directed Zone 1?Passage: Zone 1:"] == "Denys Roe"
    assert own["Question: Who directed Zone 1?Passage: Lake: A"] == "nothing"
    facts = parse_reading(own[f"{asked}Passage: Zone 1:"]).facts
    assert facts == (Triple("Zone 1", "director", "Denys Roe"),)
    assert own[f"{asked}Passage: Lake: A"] == "nothing"
    _, quiet = build(tmp_path / "quiet", *arguments[:4], "--nothing-rate", "0")
    assert all(sample.label != "nothing" for sample in quiet)


def test_texts_with_triples(tmp_path: Path) -> None:
    records = [
        {"text": f"Zone {n} is a film by Roe and Lis.", "dataset": "open" if n % 2 else "closed",
         "triples": [[f"zone {n}", "writtenBy", "Roe"], [f"Zone {n}", "writtenBy", "Lis"],
                     [f"Zone {n}", "instance of", "film"], [f"Zone {n}", "genre", "none told"]]}
        for n in range(12)
    ]  # fmt: skip
    data = write_lines(tmp_path / "triples.jsonl", records)
    _, samples = build(
        tmp_path / "out", "--source", f"triples={data}", "--datasets", "open", "--nothing-rate", "0"
    )
    assert len(samples) == 6
    for sample in samples:
        assert sample.prompt.startswith("Question: What is the written by of Zone ")
        assert parse_reading(sample.label).answers == ("Roe", "Lis")
    records.append({"text": "Ana, a song.", "triples": [["Ana", "label", "song"]]})
    data = write_lines(tmp_path / "more.jsonl", records)
    _, silent = build(tmp_path / "silent", "--source", f"triples={data}", "--nothing-rate", "1")
    labels = {s.label for s in silent if s.prompt.startswith("Question: What is the label of Zone")}
    assert labels == {"nothing"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [({"id": "1", "question": "Who?"}, "'passage'"), ({"id": "1", "passage": "x"}, "'question'")],
)
def test_a_broken_record_names_its_line(tmp_path: Path, line: dict[str, str], problem: str) -> None:
    data = write_lines(tmp_path / "read.jsonl", [read_passage(1), line])
    arguments = ("--source", f"reading={data}", "--out", tmp_path / "out", *QUICK)
    done = run("build_reading.py", *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert f"read.jsonl:2: field {problem}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_real_data_gives_grounded_samples(tmp_path: Path) -> None:
    reading = shared_data_file("reading/test.jsonl")
    musique = shared_data_file("qa/musique_train.jsonl")
    _, samples = build(
        tmp_path / "out", "--source", f"reading={reading}", "--per-data-set", "40",
        "--source", f"musique={musique}", "--limit", "30", "--skip-bad",
    )  # fmt: skip
    assert len(samples) > 300
    for sample in samples:
        passage = " ".join(sample.prompt.split("\n")[1].lower().split())
        for answer in parse_reading(sample.label).answers:
            assert answer.lower().split()[0].strip("\"'(,") in passage
