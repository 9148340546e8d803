"""A new loop, data source and component: one file each, one line where names are, nothing else.

The files beside this one are what docs/architecture.md points to. The real commands use them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import inference.ask
import inference.evaluate
from data_gen import build_triples
from data_gen.sources.open_source import TRIPLE_SOURCES, converted
from inference.opening.loop import LOOPS
from models.formats.records import (
    PassageRecord,
    QuestionRecord,
    TriplesSample,
    read_records,
    write_records,
)
from models.formats.triples import Triple
from tests.components import chat_backbone
from tests.examples import field_notes, subject_writer
from tests.examples.lead_loop import LEAD
from tests.processes import ROOT
from tests.run_main import Run, json_runner, run_main
from tests.tiny import tiny_backbone

PASSAGES = [
    PassageRecord("1", "Dawn", "Dawn is a film by Ana Lis."),
    PassageRecord("2", "Ana Lis", "Ana Lis was born in Brill."),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_records(tmp_path / "corpus.jsonl", PASSAGES)
    return tmp_path / "corpus.jsonl"


@pytest.fixture
def with_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that a new loop takes in `inference/opening/loop.py`."""
    monkeypatch.setitem(LOOPS, LEAD.name, LEAD)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    backbone = chat_backbone(tmp_path / "backbone")
    always = ("--backbone", backbone, "--engine", "transformers", "--retriever", "bm25")
    return json_runner(monkeypatch, capsys, tmp_path / "cache", *always, "--dtype", "float32")


def test_a_loop_answers_with_its_own_option(with_lead: None, corpus: Path, run: Run) -> None:
    trace = run(
        inference.ask.main, "Who made Dawn?", "--corpus", corpus, "--loop", "lead",
        "--lead-words", 3, "--top-k", 2, "--max-answer-tokens", 4,
    )  # fmt: skip
    assert trace["notes"] == ["read 3 words"] and trace["bill"]["llm_calls"] == 1


def test_a_loop_is_evaluated(with_lead: None, corpus: Path, run: Run, tmp_path: Path) -> None:
    write_records(tmp_path / "q.jsonl", [QuestionRecord("a", "Who made Dawn?", "Ana Lis")])
    results = run(
        inference.evaluate.main, "--dataset", tmp_path / "q.jsonl", "--corpus", corpus,
        "--loop", "lead", "--out", tmp_path / "out", "--max-answer-tokens", 4,
    )  # fmt: skip
    assert results["n"] == 1 and results["errors"] == 0
    trace = json.loads((tmp_path / "out" / "traces.jsonl").read_text(encoding="utf-8"))
    assert trace["steps"][0]["passages"][0]["title"] == "Dawn"


def test_a_source_is_built_and_its_errors_name_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(TRIPLE_SOURCES, "field_notes", converted(field_notes.convert))
    notes = [
        {"note": f"Bird {i} sings in May.", "facts": [f"Bird {i} > sings in > May"]}
        for i in range(6)
    ]
    path = tmp_path / "notes.jsonl"
    path.write_text("\n".join(map(json.dumps, notes)), encoding="utf-8")
    given = ["--source", f"field_notes={path}", "--out", str(tmp_path / "built")]
    build_triples.main([*given, "--tokenizer", "words", "--fractions", "1,0,0"])
    built = list(read_records(tmp_path / "built" / "train.jsonl", TriplesSample))
    assert {sample.triples[0].predicate for sample in built} == {"sings in"} and len(built) == 6
    with path.open("a", encoding="utf-8") as lines:
        lines.write('\n{"note": "A bird.", "facts": ["sings"]}\n')
    with pytest.raises(SystemExit, match=r"notes.jsonl:7: field 'facts'.*Write 'subject > "):
        build_triples.main([*given, "--tokenizer", "words"])
    with pytest.raises(SystemExit):
        build_triples.main(["--source", f"field_note={path}", "--out", "o"])
    assert "The nearest: field_notes" in capsys.readouterr().err


@pytest.mark.slow
def test_a_component_is_trained_saved_and_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    samples = [
        TriplesSample(f"s{i}", f"Bird {i} sings.", [Triple(f"Bird {i}", "does", "sing")])
        for i in range(4)
    ]
    write_records(tmp_path / "train.jsonl", samples)
    recipe: list[Any] = ["--config", ROOT / "configs" / "t2t_tiny.yaml"]
    changes = [
        f"data.train={tmp_path / 'train.jsonl'}", f"data.dev={tmp_path / 'train.jsonl'}",
        f"model.backbone={tiny_backbone(tmp_path / 'backbone')}", f"output_dir={tmp_path / 'out'}",
        "train.max_steps=2", "train.batch_size=2", "validation.samples=2",
    ]  # fmt: skip
    run_main(monkeypatch, subject_writer.main, *recipe, "--json", *changes)
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["eval_subject"] >= 0.0 and figures["steps"] == 2
    component = subject_writer.SubjectWriter.from_pretrained(tmp_path / "out")
    assert component.settings.lora_rank == 16 and component.settings.has_adapter
