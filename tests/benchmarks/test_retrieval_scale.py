"""benchmarks/retrieval_scale.py at a small size."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.retrieval_scale import write_corpus
from benchmarks.workers.retrieval import BACKENDS, ClusterEncoder
from inference.retrieval.passages import Passage, load_corpus
from models.formats.records import write_records
from tests.benchmarks.commands import last_json, run_benchmark


def test_a_corpus_is_filled_up_with_worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.retrieval_scale.WORLD", 70)
    for name in ("a", "b"):
        write_records(tmp_path / name, [Passage(f"p{n}", "t", name) for n in range(20)])
    corpora = [tmp_path / "a", tmp_path / "b"]
    for size, counts in ((30, (30, 0)), (200, (40, 160))):
        found = write_corpus(tmp_path / "out", size, corpora)
        assert (found["corpora"], found["worlds"]) == counts
        passages = load_corpus(tmp_path / "out")
        assert len({passage.id for passage in passages}) == len(passages) == size


def test_vectors_lie_around_centres() -> None:
    encoder = ClusterEncoder()
    vectors = encoder.encode(["one", "two", "one"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert (vectors[0] == vectors[2]).all() and not np.allclose(vectors[0], vectors[1])


@pytest.mark.exhaustive
def test_every_figure_of_a_back_end(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason="the extra `milvus` is not installed")
    options = ("--sizes", "80", "--queries", "4", "--encoder", "hash", "--dir", str(tmp_path))
    some = ("memory", "server")
    assert {*some, "mapped", "embedded"} == set(BACKENDS)
    done = run_benchmark("retrieval_scale.py", *options, "--backends", *some)
    assert done.returncode == 0, done.stderr[-3000:]
    size = last_json(done)["sizes"]["80"]
    assert size["passages_from"] == {"corpora": 0, "worlds": 80} and size["vectors"] == "encoder"
    assert set(size["backends"]) == set(some)
    for name, row in size["backends"].items():
        assert row["status"] == "ok", (name, json.dumps(row))
        assert row["bm25_queries_per_second"] > 0 and row["dense_ms_p95"] >= row["dense_ms_median"]
        assert row["search"] == "exact" and row["recall_at_10"] is None
        assert (row.get("bytes_on_disk", 0) > 0) == (name != "memory")
    assert size["backends"]["server"]["server_mib"] > 0
