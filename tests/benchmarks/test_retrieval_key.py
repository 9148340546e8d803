"""The retrieval-key ablation on a knowledge base whose right answers are known."""

import json
from pathlib import Path

import pytest

import benchmarks.retrieval_key
from benchmarks.retrieval_key import compare_keys
from inference.indexes.knowledge_base.entries import Claim, Entry
from inference.indexes.knowledge_base.store import Output, extend
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.records import PassageRecord, QuestionRecord, write_records
from tests.run_main import run_main

ENTRIES = [
    Entry("Ada birthplace", [Claim("zzz", "www", ["p1"])]),
    Entry("Ben employer", [Claim("", "Ada birthplace", ["p2"])]),
]


def test_hits_follow_the_key_and_empty_keys_are_not_indexed() -> None:
    encoder = load_sentence_encoder("hash")
    figures = compare_keys(ENTRIES, ["Ada birthplace"], [["p1"]], encoder)
    assert [figures[key]["hit@1"] for key in ("C", "P", "R")] == [1.0, 1.0, 0.0]
    assert [figures[key]["ndcg@5"] for key in ("C", "P")] == [1.0, 1.0]
    assert [figures[key]["rows"] for key in ("All", "C", "P", "R")] == [2, 2, 1, 2]
    assert figures["C"]["key_text_mb"] < figures["All"]["key_text_mb"]
    assert all(figure["median_search_ms"] > 0 for figure in figures.values())


def test_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = load_sentence_encoder("hash")
    output = "[C] Ada; place of birth [P] [R] Ada was born in Rome."
    passage = PassageRecord("p1", "Ada", "Ada was born in Rome.")
    extend(None, [Output("p1", passage.title, passage.text, output, False)], encoder).save(
        tmp_path / "kb"
    )
    write_records(tmp_path / "corpus.jsonl", [passage])
    record = QuestionRecord(
        "q", "Where was Ada born?", "Rome", context=[("Ada", [passage.text])],
        supporting_facts=[("Ada", 0)],
    )  # fmt: skip
    write_records(tmp_path / "q.jsonl", [record])
    run_main(
        monkeypatch, benchmarks.retrieval_key.main, "--kb", tmp_path / "kb", "--encoder", "hash",
        "--corpus", tmp_path / "corpus.jsonl", "--dataset", tmp_path / "q.jsonl",
    )  # fmt: skip
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["questions"] == 1 and report["keys"]["C"]["hit@1"] == 1.0
    assert report["hit@1_c_minus_all"] == 0.0
