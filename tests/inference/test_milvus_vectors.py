"""Vectors of what is no passage in Milvus: found as in memory, and kept up to date."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inference.build_kb
from benchmarks.scripted_world.gold_world import make_world
from benchmarks.scripted_world.scripted_engine import WideHashEncoder
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.knowledge_base.store import KnowledgeBase, extend
from inference.indexes.propositions.index import PropositionIndex, open_index, ranked
from inference.retrieval import milvus_schema, milvus_vectors
from inference.retrieval.milvus_client import Address, Connection, MilvusError
from inference.retrieval.milvus_vectors import HEAD, VectorCollection, key_of, open_collection
from inference.retrieval.passages import IndexMismatchError
from inference.retrieval.vectors import VectorIndex
from models.files.sentence_encoder import FloatArray, HashEncoder, SentenceEncoder
from tests.inference.milvus_server import milvus_server
from tests.inference.test_hierarchy import ANA, DAWN, LAKE, add
from tests.inference.test_hierarchy import ENCODER as HASH
from tests.inference.test_knowledge_base import DIRECTOR, YEAR, output
from tests.inference.test_propositions import world_documents
from tests.run_main import run_main

pytest.importorskip("milvus_lite", reason="the extra `milvus` is not installed")

TEXTS = [f"{word} {n % 7}" for n, word in enumerate(("river", "jazz", "engine", "island") * 30)]


class Unasked(HashEncoder):
    """An encoder that must not embed what is there."""

    def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
        raise AssertionError(texts)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server in a process of its own."""
    with milvus_server(tmp_path_factory.mktemp("server") / "data") as address:
        yield address


@pytest.fixture
def place(tmp_path: Path) -> str:
    """An embedded database, new for each test."""
    return str(tmp_path / "index.db")


@pytest.fixture(params=["file", "server"])
def any_place(request: pytest.FixtureRequest, place: str) -> str:
    """That, or an index's name at a server."""
    if request.param == "file":
        return place
    name = "".join(c for c in request.node.name if c.isalnum())
    return f"{request.getfixturevalue('server')}/{name}"


def put(
    place: str, texts: Sequence[str], renew: bool = False, encoder: SentenceEncoder = HASH
) -> VectorCollection:
    return open_collection(
        place, "propositions", texts, lambda: encoder.encode(texts), encoder, renew
    )


def in_memory(vectors: FloatArray) -> VectorIndex:
    index = VectorIndex(vectors.shape[1])
    index.add(vectors)
    return index


def test_the_same_is_found_as_in_memory_equal_ones_in_order(any_place: str) -> None:
    expected = in_memory(HASH.encode(TEXTS))
    queries = HASH.encode(["jazz 3", "river island", "engine 2 jazz", "nothing of it"])
    collection = put(any_place, TEXTS)
    for top_k in (1, 9, 60, 1000):
        assert collection.nearest(queries, top_k) == expected.nearest(queries, top_k)
    assert collection.nearest(queries, 0) == [[], [], [], []]
    vector = queries[0]
    assert np.allclose(collection.similarities(vector), HASH.encode(TEXTS) @ vector, atol=1e-6)
    collection.close()


def test_deeper_than_milvus_goes_all_vectors_are_read(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = in_memory(HASH.encode(TEXTS))
    queries = HASH.encode(["jazz 3"])
    collection = put(place, TEXTS)
    monkeypatch.setattr(milvus_vectors, "MOST_HITS", 40)
    monkeypatch.setattr(milvus_vectors, "AT_ONCE", 50)
    for top_k in (5, 30, 100, 120):
        assert collection.nearest(queries, top_k) == expected.nearest(queries, top_k)
    scores = collection.similarities(queries[0])
    assert (scores > -1).sum() == 39
    nearest = [row for row, _ in expected.nearest(queries, 20)[0]]
    assert np.all(scores[nearest] > -1)
    collection.close()


def test_it_is_written_once_and_brought_up_to_other_texts(any_place: str) -> None:
    put(any_place, TEXTS).close()
    again = put(any_place, TEXTS, encoder=Unasked())
    assert len(again) == len(TEXTS) and again.is_exact
    again.close()
    changed = ["chess 1", *TEXTS[1:80], "steam 9"]
    with pytest.raises(IndexMismatchError, match=r"120 vectors of other texts than the 81.*build_"):
        put(any_place, changed)
    renewed = put(any_place, changed, renew=True)
    vectors = HASH.encode(["chess 1", "steam"])
    expected = in_memory(HASH.encode(changed)).nearest(vectors, 81)
    assert renewed.nearest(vectors, 81) == expected
    assert renewed.put(list(map(key_of, changed)), HASH.encode(changed)) == 0
    renewed.close()
    put(any_place, changed, encoder=Unasked()).close()


def test_another_encoder_is_refused(place: str) -> None:
    put(place, TEXTS).close()
    for renew in (False, True):
        with pytest.raises(IndexMismatchError, match=r"the encoder hash, and wide-hash|and .*hash"):
            put(place, TEXTS, renew, WideHashEncoder())


def test_an_interrupted_change_is_told_and_mended(
    any_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = put(any_place, TEXTS)

    def ends(*arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(collection.connection, "write", one_call_of(collection.connection, ends))
    with pytest.raises(KeyboardInterrupt):
        collection.put([key_of("chess")], HASH.encode(["chess"]))
    collection.close()
    if any_place.startswith("http"):
        with pytest.raises(MilvusError, match="is being written by another process"):
            put(any_place, TEXTS, renew=True)
        monkeypatch.setattr(milvus_vectors, "STALE_SECONDS", 0.0)
    with pytest.raises(IndexMismatchError, match="an interrupted change"):
        put(any_place, TEXTS)
    mended = put(any_place, TEXTS, renew=True)
    queries = HASH.encode(["jazz 3"])
    assert mended.nearest(queries, 9) == in_memory(HASH.encode(TEXTS)).nearest(queries, 9)
    mended.close()


def test_vectors_that_take_long_to_write_are_dated_meanwhile(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = put(f"{server}/slow", TEXTS)
    write, dated = collection.connection.write, list[bool]()

    def slowly(method: str, name: str, *arguments: Any, **named: Any) -> Any:
        if method == "flush":
            begun, end = collection.about.written, time.monotonic() + 20
            while collection.about.written == begun and time.monotonic() < end:
                time.sleep(0.02)
            dated.append(collection.about.written > begun)
        return write(method, name, *arguments, **named)

    monkeypatch.setattr(milvus_schema, "DATED_SECONDS", 0.05)
    monkeypatch.setattr(collection.connection, "write", slowly)
    collection.put([key_of("chess")], HASH.encode(["chess"]))
    assert dated == [True]
    assert (collection.about.state, len(collection)) == ("whole", 1)
    collection.close()


def one_call_of(connection: Connection, then: Any) -> Any:
    """The connection's `write` for one call; `then` in its place for all others."""
    write, calls = connection.write, iter([True])

    def written(*arguments: Any, **named: Any) -> Any:
        return (write if next(calls, False) else then)(*arguments, **named)

    return written


def test_a_server_that_lacks_rows_is_told(place: str) -> None:
    collection = put(place, TEXTS)
    collection.connection.write("delete", collection.name, ids=[3, 4])
    with pytest.raises(MilvusError, match="answered with 118 of 120 vectors"):
        collection.nearest(HASH.encode(["jazz"]), 120)
    with pytest.raises(MilvusError, match="answers with 118 of 120 vectors"):
        put(place, TEXTS)
    collection.close()


def test_the_head_is_no_row(place: str) -> None:
    collection = put(place, TEXTS[:3])
    [head] = collection.connection.read("get", collection.name, [HEAD], output_fields=["key"])
    assert replace(collection.about, written=0.0) == replace(
        milvus_vectors.About(**json.loads(head["key"])), written=0.0
    )
    assert asdict(collection.about)["rows"] == 3
    # Its vector of zeros is nearer than one that points away.
    [found] = collection.nearest(-HASH.encode(["river 0"]), 3)
    assert sorted(row for row, _ in found) == [0, 1, 2]
    collection.close()


@pytest.mark.exhaustive
def test_propositions_are_found_as_in_memory(place: str, tmp_path: Path) -> None:
    world = make_world(tmp_path / "world")
    encoder = WideHashEncoder()
    made = PropositionIndex(encoder)
    made.save_part(tmp_path / "propositions", made.add(world_documents(world)), "gold")
    memory = open_index(tmp_path / "propositions", encoder, tmp_path / "folder")
    stored = open_index(tmp_path / "propositions", encoder, place)
    for queries in ([f"{world.passages[3].title} director"], [p.title for p in world.passages[:9]]):
        assert list(ranked(stored, queries)) == list(ranked(memory, queries))
    with pytest.raises(AssertionError):
        stored.add([])


def test_conditions_are_found_as_in_memory(place: str, tmp_path: Path) -> None:
    extend(None, [output(1, DIRECTOR, YEAR)], HASH).save(tmp_path / "kb")
    memory = KnowledgeBase.load(tmp_path / "kb", HASH)
    stored = KnowledgeBase.load(tmp_path / "kb", HASH, place)
    queries = ["Who is the director of Dus Lakh?", "Dus Lakh year"]
    assert stored.search(queries, 2) == memory.search(queries, 2)
    assert stored.search([], 2) == []


def test_a_hierarchy_s_evidence_is_that_of_memory(place: str, tmp_path: Path) -> None:
    add(tmp_path / "hierarchy", [DAWN, ANA, LAKE])
    memory = HierarchyIndex.load(tmp_path / "hierarchy", HASH)
    stored = HierarchyIndex.load(tmp_path / "hierarchy", HASH, place)

    def seen(index: HierarchyIndex) -> Any:
        scored = index.score("Where was the director of Dawn born?")
        evidence = index.evidence(scored, None, 50, 0.5)
        shown = [(e.sentence, e.chunk, e.triples, round(e.score, 5)) for e in evidence]
        return shown, index.shortlist_topics(scored, 50)

    assert seen(stored) == seen(memory)


def test_a_folder_is_no_place_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_main(
            monkeypatch, inference.build_kb.main, "--corpus", tmp_path / "c.jsonl",
            "--out", tmp_path / "kb", "--index", tmp_path / "folder",
        )  # fmt: skip
    assert ended.value.code == 2
    assert "not an address of Milvus" in capsys.readouterr().err
    assert not (tmp_path / "kb").exists()


def test_the_names_of_its_collections_are_no_names_of_indexes() -> None:
    with pytest.raises(MilvusError, match="not an address of the form"):
        Address.parse("http://127.0.0.1:1/films__conditions")
