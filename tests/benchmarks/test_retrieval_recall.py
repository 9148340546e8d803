"""The benchmark of retrieval, on passages that words find and on some that they do not."""

from pathlib import Path

from benchmarks.retrieval_recall import wanted_passages
from inference.retrieval.open_retriever import reciprocal_rank_fusion
from inference.retrieval.passages import Hit
from models.formats.passages import context_passages
from models.formats.records import PassageRecord, QuestionRecord, write_records
from models.span_reader import SpanReader, SpanReaderConfig
from tests.benchmarks.commands import last_json, run_benchmark
from tests.data_gen.build_inputs import wiki
from tests.tiny import tiny_encoder


def test_recall_of_questions_and_hops(tmp_path: Path) -> None:
    records = [QuestionRecord.from_json(wiki(number)) for number in range(10, 22, 2)]
    own = {p.title: p for record in records for p in context_passages(record)}
    rest = [PassageRecord(f"l{n}", f"Lake {n}", "A lake with water.") for n in range(30)]
    write_records(tmp_path / "corpus.jsonl", [*own.values(), *rest])
    write_records(tmp_path / "questions.jsonl", records)
    given = ("--questions", str(tmp_path / "questions.jsonl"), "--encoder", "hash")
    given += ("--corpus", str(tmp_path / "corpus.jsonl"), "--dense-weights", "0", "1")
    given += ("--span-reader", str(tmp_path / "span"), "--depths", "4")
    pointing = SpanReaderConfig(str(tiny_encoder(tmp_path / "encoder")), lora_rank=2)
    SpanReader.from_config(pointing, dtype="float32").save_pretrained(tmp_path / "span")
    found = last_json(run_benchmark("retrieval_recall.py", *given))
    rows = {(row["queries"], row["retriever"]): row for row in found["rows"]}
    fused = {"hybrid hash 0", "hybrid hash 1"}
    read = {f"{way}, 4 read" for way in fused}
    assert {way for _, way in rows} == {"bm25", "dense hash", *fused, *read}
    assert found["queries"]["hop"] >= found["queries"]["question"] == 6
    assert found["passages"] == len(own) + 30
    for kind in ("question", "hop"):
        words, fused_alone = rows[kind, "bm25"], rows[kind, "hybrid hash 0"]
        assert words["recall@3"] == fused_alone["recall@3"] > 0.5
        assert words["recall@5"] >= words["recall@3"] and words["milliseconds"] > 0
        assert rows[kind, "hybrid hash 0, 4 read"]["recall@5"] <= words["recall@5"]
    few = last_json(run_benchmark("retrieval_recall.py", *given, "--question-documents"))
    assert few["passages"] == len(own)


def test_the_fusion_is_that_of_the_hybrid_retriever() -> None:
    first, second = list("abcd"), list("dbxa")
    rankings = [
        [Hit(PassageRecord(name, name, name), 1.0) for name in ranking]
        for ranking in (first, second)
    ]

    def fused(weights: tuple[float, float] | None) -> list[str]:
        return [hit.passage.id for hit in reciprocal_rank_fusion(rankings, weights=weights)]

    assert fused((1.0, 1.0)) == fused(None)
    assert fused((1.0, 100.0)) == ["d", "b", "x", "a", "c"]


def test_questions_of_another_corpus(tmp_path: Path) -> None:
    write_records(tmp_path / "questions.jsonl", [QuestionRecord.from_json(wiki(0))])
    write_records(tmp_path / "corpus.jsonl", [PassageRecord("1", "Lake", "Water.")])
    done = run_benchmark(
        "retrieval_recall.py", "--questions", str(tmp_path / "questions.jsonl"),
        "--corpus", str(tmp_path / "corpus.jsonl"), "--encoder", "hash", "--span-reader", "none",
    )  # fmt: skip
    assert done.returncode == 1 and "no supporting passage of" in done.stderr
    assert not wanted_passages([], [])
