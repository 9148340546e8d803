"""build_conditions.py as it is run: by path, on fixtures and on real data."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.formats.records import ConditionSample, read_records
from models.processors.passages import by_passage
from tests.data_gen.test_build_commands import question, run, run_anew, write_lines
from tests.shared_data import shared_data_file


def hotpot(number: int) -> dict[str, Any]:
    return {
        "id": f"h{number}",
        "question": "What is Odense?",
        "answer": "a city",
        "context": [
            [f"Odense {number}", ["Odense is a city in Denmark.", " It was founded early."]]
        ],
        "supporting_facts": [[f"Odense {number}", 0], [f"Odense {number}", 1]],
    }


def read_all(folder: Path) -> dict[str, list[ConditionSample]]:
    names = ("train", "dev", "test")
    return {name: list(read_records(folder / f"{name}.jsonl", ConditionSample)) for name in names}


def test_command_writes_whole_passages_to_one_split(tmp_path: Path) -> None:
    facts = write_lines(tmp_path / "two.jsonl", [question(number) for number in range(6)])
    sentences = write_lines(tmp_path / "hotpot.jsonl", [hotpot(number) for number in range(6)])
    test = write_lines(tmp_path / "test.jsonl", [hotpot(3)])
    arguments = (
        "--source", f"2wikimultihopqa={facts}", "--source", f"hotpotqa={sentences}",
        "--exclude", test, "--fractions", "0.6,0.4,0", "--tokenizer", "words", "--json",
    )  # fmt: skip
    done = run("build_conditions.py", *arguments, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    splits = read_all(tmp_path / "out")
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert summary["splits"] == {name: len(samples) for name, samples in splits.items()}
    texts = [{sample.text for sample in samples} for samples in splits.values()]
    assert texts[0] and texts[1] and not texts[0] & texts[1]
    everything = [sample for samples in splits.values() for sample in samples]
    assert not any("Odense 3" in sample.text for sample in everything)
    film = next(p for p in by_passage(everything) if p.text.startswith("Zone 1: "))
    assert "Zone 1; director" in [triplet.condition for triplet in film.triplets]
    city = next(p for p in by_passage(everything) if p.text.startswith("Odense 1: "))
    assert all(sample.proof in sample.text for sample in everything)
    assert "Odense 1; founded early" in [triplet.condition for triplet in city.triplets]
    card = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))
    assert card["figures"]["triplets"] == len(everything)
    assert card["samples_to_read"] and card["kinds"]["left out: supports a test question"] == 1
    run_anew("build_conditions.py", *arguments, "--out", tmp_path / "again", cwd=tmp_path)
    for name in ("train.jsonl", "dev.jsonl", "card.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_world_gives_condition_triplets(tmp_path: Path) -> None:
    made = run("build_world.py", "--questions", "8", "--out", tmp_path / "world", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    source = ("--source", f"world={tmp_path / 'world'}", "--tokenizer", "words")
    done = run("build_conditions.py", *source, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    samples = read_all(tmp_path / "out")["train"]
    assert len(samples) > 100
    proven = [sample for sample in samples if sample.proof]
    assert len(proven) > 0.9 * len(samples)


def test_a_passage_of_two_sources_is_taken_once(tmp_path: Path) -> None:
    first = write_lines(tmp_path / "a.jsonl", [hotpot(1), hotpot(2)])
    second = write_lines(tmp_path / "b.jsonl", [hotpot(2), hotpot(3)])
    sources = ("--source", f"hotpotqa={first}", "--source", f"hotpotqa={second}")
    options = ("--tokenizer", "words", "--fractions", "1,0,0", "--out", tmp_path / "out")
    done = run("build_conditions.py", *sources, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    conditions = [sample.condition for sample in read_all(tmp_path / "out")["train"]]
    assert len(conditions) == len(set(conditions)) and len(conditions) >= 3


def test_no_samples_is_an_error(tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "hotpot.jsonl", [{**hotpot(1), "supporting_facts": []}])
    done = run(
        "build_conditions.py",
        "--source",
        f"hotpotqa={empty}",
        "--out",
        tmp_path / "o",
        cwd=tmp_path,
    )
    assert done.returncode != 0 and "no samples" in done.stderr
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_real_data(tmp_path: Path) -> None:
    sources = [f"--source={name}={shared_data_file(f'qa/{name}_train.jsonl')}" for name in
               ("2wikimultihopqa", "musique", "hotpotqa")]  # fmt: skip
    limits = ("--skip-bad", "--limit", "200", "--tokenizer", "words", "--json")
    done = run("build_conditions.py", *sources, *limits, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.strip().splitlines()[-1])["figures"]
    assert figures["passages"] > 300
    assert figures["empty_proofs"] < 0.3 * figures["triplets"]
