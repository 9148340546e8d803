"""benchmarks/hierarchy.py at the smallest size."""

from pathlib import Path

import pytest

from inference.indexes.extraction import TripleCache
from inference.opening.components import Component
from inference.opening.extractors import extractor_name
from inference.retrieval.passages import Passage
from models.formats.passages import passage_key
from models.formats.records import PassageRecord, QuestionRecord, write_records
from models.formats.triples import Triple
from tests.benchmarks.commands import last_json, run_benchmark
from tests.components import t2t_component
from tests.tiny import tiny_backbone


@pytest.mark.slow
def test_every_figure_of_every_size() -> None:
    done = run_benchmark(
        "hierarchy.py", "--sizes", "60", "80", "--queries", "5", "--encoder", "hash"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = last_json(done)
    assert result["benchmark"] == "hierarchy"
    small, large = result["sizes"]["60"], result["sizes"]["80"]
    assert (small["documents"], large["documents"]) == (60, 80)
    assert small["facts"] < large["facts"] and small["bytes"] > 10_000
    for figures in (small, large):
        assert figures["components"] <= figures["components_without_topics"]
        assert figures["largest_share"] >= figures["largest_share_without_topics"]
        assert 0 < figures["query_ms_median"] <= figures["query_ms_p95"]


@pytest.mark.slow
def test_a_corpus_whose_triples_are_in_the_cache(tmp_path: Path) -> None:
    corpus = [PassageRecord(f"p{n}", f"Film {n}", f"Film {n} is by Ana {n}.") for n in range(6)]
    write_records(tmp_path / "corpus.jsonl", corpus)
    write_records(tmp_path / "q.jsonl", [QuestionRecord("q", "Who directed Film 1?", "Ana 1")])
    t2t = t2t_component(tmp_path / "t2t", tiny_backbone(tmp_path / "backbone"))
    cache = TripleCache(tmp_path / "triples.sqlite", extractor_name(Component.open(t2t, "t2t")))
    cache.put(
        {
            passage_key(Passage(p.id, p.title, p.text)): (
                [Triple(p.title, "director", f"Ana {n}")],
                0,
            )
            for n, p in enumerate(corpus[:5])
        }
    )
    cache.close()
    options = (
        "--corpus", str(tmp_path / "corpus.jsonl"), "--dataset", str(tmp_path / "q.jsonl"),
        "--cache", str(tmp_path / "triples.sqlite"), "--t2t", str(t2t), "--encoder", "hash",
    )  # fmt: skip
    done = run_benchmark("hierarchy.py", *options, "--sizes", "5")
    assert done.returncode == 0, done.stderr[-3000:]
    assert last_json(done)["sizes"]["5"]["facts"] == 5
    lacking = run_benchmark("hierarchy.py", *options, "--sizes", "6")
    assert lacking.returncode != 0 and "1 of 6 passages" in lacking.stderr
