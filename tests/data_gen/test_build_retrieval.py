"""build_retrieval.py as it is run: questions with hops, read passages, and what is left out."""

import json
from pathlib import Path
from typing import Any

from data_gen.facts.entities import mentions
from models.formats.records import read_records
from models.formats.retrieval import RetrievalSample
from tests.data_gen.build_inputs import hotpot, musique
from tests.data_gen.test_build_commands import question, run, write_lines
from tests.data_gen.test_build_reading import RADIUM, read_passage

QUICK = ("--tokenizer", "words", "--json", "--fractions", "0.7,0.3,0")


def build(folder: Path, *arguments: str | Path) -> tuple[dict[str, Any], list[RetrievalSample]]:
    """Run the command; its card and all samples."""
    done = run("build_retrieval.py", *arguments, "--out", folder, *QUICK, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    splits = {
        name: list(read_records(folder / f"{name}.jsonl", RetrievalSample))
        for name in ("train", "dev")
    }
    assert {name: len(samples) for name, samples in splits.items()} | {"test": 0} == card["splits"]
    owners = [{s.source_id.split("/")[0] for s in samples} for samples in splits.values()]
    assert not owners[0] & owners[1]
    return card, [sample for samples in splits.values() for sample in samples]


def test_questions_and_hops(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "q.jsonl", [question(number) for number in range(12)])
    test = write_lines(tmp_path / "test.jsonl", [{**question(3), "evidences": []}])
    extra = [
        {"id": "1", "title": "Area", "text": "Zone 0 is another film, director unknown."},
        {"id": "2", "title": "Montreal", "text": "The director of Zone 1 was born in Montreal."},
    ]
    corpus = write_lines(tmp_path / "corpus.jsonl", extra)
    arguments = ("--source", f"2wikimultihopqa={data}", "--corpus", corpus, "--exclude", test)
    card, samples = build(tmp_path / "out", *arguments)
    assert not any(s.source_id == "q3" for s in samples)
    assert card["counts"]["left out: a test question"] == 1
    own = {(s.query, s.positive.title): s for s in samples}
    assert len(own) == len(samples)
    whole = "Where was the director of Zone 1 born?"
    assert {(whole, "Zone 1"), (whole, "Denys Roe"), ("Who directed Zone 1?", "Zone 1")} <= {*own}
    for sample in samples:
        supporting = {
            title for (query, title) in own if query == sample.query or title == "Denys Roe"
        }
        assert 1 <= len(sample.negatives) <= 4
        assert sample.source == "2wikimultihopqa"
        for other in sample.negatives:
            if sample.query.startswith("Where"):
                assert other.title not in supporting
                assert not mentions(other.written, "Montreal")
    _, fewer = build(tmp_path / "fewer", *arguments, "--negatives", "1")
    assert {len(sample.negatives) for sample in fewer} == {1}


def test_other_sources(tmp_path: Path) -> None:
    lake = read_passage(40, answer="in ore", passage="Marie found it in ore.", title="Ore")
    silent = read_passage(41, answer="")
    others = [
        read_passage(n, passage=f"Radium {n} glows: {n} times.", answer=f"Radium {n}", title="")
        for n in range(50, 60)
    ]  # fmt: skip
    read = [*map(read_passage, range(6)), lake, silent, *others]
    sources = {
        "reading": write_lines(tmp_path / "read.jsonl", read),
        "musique": write_lines(tmp_path / "musique.jsonl", map(musique, range(8))),
        "hotpotqa": write_lines(tmp_path / "hotpot.jsonl", map(hotpot, range(8))),
    }
    given = [word for name, path in sources.items() for word in ("--source", f"{name}={path}")]
    card, samples = build(tmp_path / "out", *given)
    assert {sample.source for sample in samples} == {*sources}
    for sample in samples:
        if sample.positive.text == RADIUM:
            assert not any(mentions(other.written, "Marie Curie") for other in sample.negatives)
    assert [source["name"] for source in card["sources"]] == ["reading", "musique", "hotpotqa"]
    assert card["sources"][0]["records"] == 17 and card["sources"][0]["licence"] == "MIT"


def test_nothing_to_make_samples_of(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "read.jsonl", [read_passage(1)])
    given = ("--source", f"reading={data}", "--out", tmp_path / "out", *QUICK)
    done = run("build_retrieval.py", *given, cwd=tmp_path)
    assert done.returncode == 1 and "no samples: the sources hold no question" in done.stderr
    broken = write_lines(tmp_path / "read.jsonl", [read_passage(1), {"id": "2", "question": "?"}])
    done = run("build_retrieval.py", *given, cwd=tmp_path)
    assert done.returncode == 1 and f"{broken}:2: field 'passage': missing" in done.stderr
    done = run("build_retrieval.py", *given, "--negatives", "0", cwd=tmp_path)
    assert done.returncode == 2 and "--negatives must be at least 1" in done.stderr
