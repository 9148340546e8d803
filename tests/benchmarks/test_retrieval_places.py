"""benchmarks/retrieval_places.py at a small size."""

from pathlib import Path

import pytest

from inference.retrieval.passages import Passage
from models.formats.records import QuestionRecord, write_records
from tests.benchmarks.commands import last_json, run_benchmark

pytestmark = pytest.mark.exhaustive
PLACES = {"memory", "mapped", "embedded", "server"}


def test_every_loop_and_retriever_finds_the_same_everywhere(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason="the extra `milvus` is not installed")
    passages = [Passage(f"p{n}", f"River {n % 7}", f"A note on jazz {n % 3}.") for n in range(40)]
    write_records(tmp_path / "corpus.jsonl", passages)
    questions = [QuestionRecord(f"q{n}", f"Which river {n} has jazz?", "x") for n in range(6)]
    write_records(tmp_path / "questions.jsonl", questions)
    done = run_benchmark(
        "retrieval_places.py", "--questions", "5", "--encoder", "hash",
        "--corpus", str(tmp_path / "corpus.jsonl"), "--dataset", str(tmp_path / "questions.jsonl"),
    )  # fmt: skip
    report = last_json(done)
    assert set(report["loops"]) == {"ras", "tri_rag", "t2rag", "th_rag", "trig_nav"}
    for places in report["loops"].values():
        assert set(places) == PLACES
        for found in places.values():
            assert (found["questions"], found["errors"]) == (5, 0)
            assert found["same_answers"] == found["same_traces"] == 5
    assert set(report["hits"]) == {"bm25", "dense", "hybrid"}
    for places in report["hits"].values():
        assert [found["same_hits"] for found in places.values()] == [5, 5, 5, 5]
        assert {found["hits"] for found in places.values()} == {places["memory"]["hits"]}


def test_a_corpus_needs_questions(tmp_path: Path) -> None:
    done = run_benchmark("retrieval_places.py", "--corpus", str(tmp_path / "corpus.jsonl"))
    assert done.returncode == 2 and "given together" in done.stderr
