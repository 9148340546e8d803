"""Retrieval in Milvus: the same hits as in memory, through every change, and what is refused."""

import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import inference.evaluate
from common.errors import UserError
from data_gen.build_world import build_world
from inference.retrieval import milvus_build, milvus_client, milvus_index, milvus_schema
from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.bm25_parts import idf, score
from inference.retrieval.corpus import MappedCorpus, open_corpus
from inference.retrieval.dense import DenseRetriever
from inference.retrieval.milvus_build import build_milvus
from inference.retrieval.milvus_client import Address, Connection, MilvusError, check_version
from inference.retrieval.milvus_index import MilvusIndex
from inference.retrieval.milvus_schema import WHOLE, read_about
from inference.retrieval.milvus_search import MilvusVectors, MilvusWords
from inference.retrieval.open_retriever import HybridRetriever, build_retriever
from inference.retrieval.passages import (
    IndexMismatchError,
    Passage,
    contents_sum,
    load_corpus,
)
from models.files.sentence_encoder import FloatArray, HashEncoder
from models.formats.records import QuestionRecord, read_records, write_records
from tests.components import chat_backbone
from tests.inference.milvus_server import free_port, milvus_server, odd_server
from tests.run_main import json_runner
from tests.shared_data import shared_data_file

pytest.importorskip("milvus_lite", reason="the extra `milvus` is not installed")

import pymilvus

KINDS = ["bm25", "dense", "hybrid"]
WORDS = ["river", "jazz", "engine", "island", "chess", "piano", "steam", "opening"]
PASSAGES = [
    Passage(f"p{n}", f"{WORDS[n % 8]} {n % 5}", f"A note on {WORDS[n % 7]} and {WORDS[n % 3]}.")
    for n in range(60)
]
QUERIES = ["Which river has an island?", "jazz piano", "steam engines", "the", "chess openings 3"]


class OtherEncoder(HashEncoder):
    """The same vectors under another identity."""

    name = "other"
    fingerprint = "32-other"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server in a process of its own."""
    with milvus_server(tmp_path_factory.mktemp("server") / "data") as address:
        yield address


@contextmanager
def connected(index: str | Path) -> Iterator[Connection]:
    connection = Connection(Address.parse(str(index)))
    try:
        yield connection
    finally:
        connection.close()


def found(retriever: Any, queries: Sequence[str] = QUERIES, top_k: int = 7) -> Any:
    return [[(h.passage, h.score) for h in hits] for hits in retriever.search(queries, top_k)]


def test_the_parts_of_a_score_are_bm25s_own_to_the_last_bit() -> None:
    retriever = Bm25Retriever(PASSAGES, title_weight=2)
    words = [f"{p.title} {p.title} {p.text}" for p in PASSAGES]
    own = milvus_index.tokenize(words)
    average = sum(map(len, own)) / len(own)
    for query in QUERIES:
        asked = milvus_index.tokenize([query])[0]
        idfs = {
            w: idf(sum(w in each for each in own), len(own))
            for w in asked
            if any(w in e for e in own)
        }
        mine = [score(asked, idfs, each, average) for each in own]
        if idfs:
            theirs = retriever.index.get_scores([word for word in asked if word in idfs])
            assert mine == [float(each) for each in theirs]


def test_a_server_is_not_pinged_so_often_that_it_hangs_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    client = pymilvus.MilvusClient

    def noted(*arguments: Any, **named: Any) -> Any:
        given.append(named)
        return client(*arguments, **named)

    monkeypatch.setattr(pymilvus, "MilvusClient", noted)
    with connected(tmp_path / "index.db"):
        # A server of gRPC's defaults allows a ping in five minutes.
        assert given[0]["grpc_options"]["grpc.keepalive_time_ms"] > 300_000


@pytest.mark.parametrize("kind", KINDS)
def test_memory_folder_file_and_server_find_the_same(
    kind: str, tmp_path: Path, server: str
) -> None:
    world = tmp_path / "world"
    build_world(40, 5, world, 120, fractions=(0.0, 0.0, 1.0), progress=False)
    path = world / "corpus.jsonl"
    questions = [q.question for q in read_records(world / "questions_test.jsonl", QuestionRecord)]
    expected = found(build_retriever(kind, load_corpus(path), "hash", title_weight=5), questions)
    assert sum(map(len, expected)) > len(questions)
    for index, times in (
        (tmp_path / "folder", 1),
        (tmp_path / "file.db", 2),
        (f"{server}/world_{kind}", 2),
    ):
        for _ in range(times):
            corpus = open_corpus(path, index)
            assert isinstance(corpus, MappedCorpus)
            same = build_retriever(kind, corpus, "hash", index, title_weight=5)
            assert found(same, questions) == expected
            closed(same)


def test_an_evaluation_answers_alike_wherever_the_index_lies(
    tmp_path: Path,
    server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    questions = [QuestionRecord(f"q{n}", query, "jazz") for n, query in enumerate(QUERIES[:3])]
    write_records(tmp_path / "questions.jsonl", questions)
    write_records(tmp_path / "corpus.jsonl", PASSAGES)
    run = json_runner(
        monkeypatch, capsys, tmp_path / "cache", "--engine", "transformers", "--dtype", "float32"
    )
    evaluate = (
        inference.evaluate.main, "--loop", "single", "--encoder", "hash",
        "--backbone", chat_backbone(tmp_path / "backbone"), "--max-answer-tokens", 3,
        "--dataset", tmp_path / "questions.jsonl", "--corpus", tmp_path / "corpus.jsonl",
    )  # fmt: skip
    places = (None, tmp_path / "folder", tmp_path / "file.db", f"{server}/asked")
    seen = []
    for number, place in enumerate(places):
        index = ("--index", place) if place else ()
        results = run(*evaluate, *index, "--out", tmp_path / str(number))
        assert results["errors"] == 0
        lines = (tmp_path / str(number) / "traces.jsonl").read_text().splitlines()
        seen.append([(row["answer"], row["steps"]) for row in map(json.loads, lines)])
    assert seen[0] == seen[1] == seen[2] == seen[3]
    assert all(row["passages"] for _, [row] in seen[0])


def closed(retriever: Any) -> None:
    """Close an embedded index, so that it can be opened again."""
    for part in getattr(retriever, "retrievers", [retriever]):
        if isinstance(part, MilvusWords | MilvusVectors):
            part.index.close()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_real_passages_are_found_the_same_everywhere(tmp_path: Path, server: str) -> None:
    corpus = load_corpus(shared_data_file("corpus/2wikimultihopqa.jsonl"))[:300]
    records = read_records(shared_data_file("qa/2wikimultihopqa_test.jsonl"), QuestionRecord)
    questions = [record.question for record in itertools.islice(records, 30)]
    for kind in ("bm25", "hybrid"):
        expected = found(build_retriever(kind, corpus, "hash"), questions, 10)
        for index in (str(tmp_path / f"{kind}.db"), f"{server}/wiki_{kind}"):
            assert found(build_retriever(kind, corpus, "hash", index), questions, 10) == expected


def test_many_equal_passages_come_in_the_order_of_the_corpus(tmp_path: Path) -> None:
    twins = [Passage(str(n), "same", "identical words") for n in range(90)]
    twins += [Passage("else", "other", "identical thing")]
    for kind in KINDS:
        expected = found(build_retriever(kind, twins, "hash"), ["identical words"], 5)
        same = build_retriever(kind, twins, "hash", str(tmp_path / f"{kind}.db"))
        assert found(same, ["identical words"], 5) == expected
        assert [passage.id for passage, _ in expected[0]] == ["0", "1", "2", "3", "4"]


def in_memory(passages: Sequence[Passage]) -> HybridRetriever:
    return HybridRetriever(
        [Bm25Retriever(passages, title_weight=2), DenseRetriever(passages, HashEncoder())]
    )


def in_milvus(index: MilvusIndex) -> HybridRetriever:
    return HybridRetriever([MilvusWords(index), MilvusVectors(index, HashEncoder())])


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
names = st.integers(0, 12).map("p{}".format)
changes = st.lists(
    st.tuples(st.sampled_from(["add", "replace", "remove"]), st.dictionaries(names, texts)),
    max_size=5,
)


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusIndex]:
    """An index that every example empties and fills again."""
    with connected(tmp_path_factory.mktemp("changes") / "file.db") as connection:
        yield build_milvus(connection, PASSAGES, HashEncoder(), title_weight=2)


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(first=st.dictionaries(names, texts, min_size=1), steps=changes)
def test_after_any_changes_it_is_as_if_built_anew(
    first: dict[str, str], steps: list[tuple[str, dict[str, str]]], changed: MilvusIndex
) -> None:
    now = [Passage(name, "", text) for name, text in first.items()]
    index = changed
    index.remove([f"p{n}" for n in range(len(PASSAGES))])
    index.add(now)
    for what, texts_by_name in steps:
        there = {passage.id: place for place, passage in enumerate(now)}
        given_now = [Passage(name, "", text) for name, text in texts_by_name.items()]
        if what == "add":
            given_now = [passage for passage in given_now if passage.id not in there]
            index.add(given_now)
            now += given_now
        elif what == "replace":
            given_now = [passage for passage in given_now if passage.id in there]
            index.replace(given_now)
            for passage in given_now:
                now[there[passage.id]] = passage
        else:
            removed = index.remove(texts_by_name)
            kept = [passage for passage in now if passage.id not in texts_by_name]
            assert removed == len(now) - len(kept)
            now = kept
    opened = MilvusIndex.open(index.connection, HashEncoder())
    assert opened is not None
    assert (opened.about.passages, opened.about.contents) == (len(now), contents_sum(now))
    if now:
        assert found(in_milvus(opened), [*WORDS, "jazz piano"]) == found(
            in_memory(now), [*WORDS, "jazz piano"]
        )
    else:
        assert found(in_milvus(opened), WORDS) == [[]] * len(WORDS)


def test_a_longer_corpus_changes_no_score_before_or_after_a_refresh(tmp_path: Path) -> None:
    longer = [Passage(f"l{n}", "jazz", " ".join(WORDS * (n % 9 + 2))) for n in range(40)]
    with connected(tmp_path / "file.db") as connection:
        index = build_milvus(connection, PASSAGES, HashEncoder(), title_weight=2)
        index.add(longer)
        expected = found(in_memory([*PASSAGES, *longer]))
        assert index.about.drift > 3
        assert found(in_milvus(index)) == expected
        index.refresh()
        assert index.about.drift == 1
        assert found(in_milvus(index)) == expected
        opened = MilvusIndex.open(connection, HashEncoder())
        assert opened is not None and opened.about.drift == 1
        blind = MilvusIndex.open(connection)
        assert blind is not None
        with pytest.raises(MilvusError, match="holds vectors of the encoder hash"):
            blind.add([Passage("new", "", "jazz")])


def test_sources_are_searched_alone(tmp_path: Path) -> None:
    lines = [{**p.to_json(), "file": f"{n % 3}.pdf"} for n, p in enumerate(PASSAGES)]
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    index = tmp_path / "file.db"
    for kind in reversed(KINDS):
        corpus = open_corpus(path, index)
        all_of_it = found(build_retriever(kind, corpus, "hash", index), QUERIES, 60)
        some = build_retriever(kind, corpus, "hash", index, sources=["1.pdf", 'no "such"'])
        for own, every in zip(found(some, QUERIES, 60), all_of_it, strict=True):
            kept = [passage for passage, _ in every if int(passage.id[1:]) % 3 == 1]
            assert {passage for passage, _ in own} == set(kept)
            assert kind == "hybrid" or [passage for passage, _ in own] == kept
        closed(some)
    with pytest.raises(MilvusError, match=r"1\.pdf.*in memory.*Search one in Milvus"):
        build_retriever("bm25", PASSAGES, sources=["1.pdf"])


def test_names_of_any_letters_are_searched_and_found(tmp_path: Path, server: str) -> None:
    names = ["données.pdf", "資料 1.pdf", 'a "b".pdf', r"c:\new\t.pdf", "d'e.pdf", "tab\t\n.pdf",
             "bell\a.pdf", "😀.pdf"]  # fmt: skip
    passages = [Passage(f"{name}#1", "jazz", f"jazz {n}") for n, name in enumerate(names)]
    path = tmp_path / "corpus.jsonl"
    lines = [{**p.to_json(), "file": name} for p, name in zip(passages, names, strict=True)]
    path.write_text("\n".join(map(json.dumps, lines)))
    for index in (str(tmp_path / "file.db"), f"{server}/names"):
        corpus = open_corpus(path, index)
        for kind, name in itertools.product(("dense", "bm25"), names):
            found_in = build_retriever(kind, corpus, "hash", index, sources=[name])
            [hits] = found_in.search(["jazz"], 20)
            assert [hit.passage.id for hit in hits] == [f"{name}#1"]
            closed(found_in)
        with connected(index) as connection:
            opened = MilvusIndex.open(connection, HashEncoder())
            assert opened is not None
            assert opened.remove([f"{name}#1" for name in names]) == len(names)


def test_what_an_index_was_made_of_is_checked(tmp_path: Path, server: str) -> None:
    for index in (str(tmp_path / "file.db"), f"{server}/checked"):
        build_retriever("hybrid", PASSAGES, "hash", index, title_weight=2)
        with connected(index) as connection, pytest.raises(IndexMismatchError) as caught:
            MilvusIndex.open(connection, OtherEncoder())
        for part in (index, "encoder_fingerprint", "encoder hash", "encoder other", "Rebuild"):
            assert part in str(caught.value)
        for passages, weight, exact, differing in (
            (PASSAGES[:-1], 2, False, "passages, contents"),
            (PASSAGES, 1, False, "title_weight"),
        ):
            with pytest.raises(IndexMismatchError, match=differing):
                build_retriever("hybrid", passages, "hash", index, weight, exact)
        build_retriever("dense", PASSAGES, "hash", index, title_weight=9)
    build_retriever("bm25", PASSAGES, index_dir=f"{server}/passages_words")
    with pytest.raises(IndexMismatchError, match="encoder None"):
        build_retriever("dense", PASSAGES, "hash", f"{server}/passages_words")


def test_an_id_that_is_there_or_not_there_is_named(tmp_path: Path) -> None:
    with connected(tmp_path / "file.db") as connection:
        index = build_milvus(connection, PASSAGES)
        with pytest.raises(MilvusError, match="passage 'p7' already"):
            index.add([Passage("p7", "", "new")])
        with pytest.raises(MilvusError, match="passage 'new' already"):
            index.add([Passage("new", "", "one"), Passage("new", "", "two")])
        with pytest.raises(MilvusError, match="no passage 'new'"):
            index.replace([Passage("new", "", "one")])
        assert index.remove(["none"]) == 0
        with pytest.raises(MilvusError, match="passage 'long': text has 70000 bytes"):
            index.add([Passage("long", "", "x" * 70_000)])


def test_an_interrupted_build_begins_again_and_an_interrupted_change_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = str(tmp_path / "file.db")

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MilvusIndex, "write_words", fail)
        with pytest.raises(KeyboardInterrupt):
            build_retriever("bm25", PASSAGES, index_dir=index)
    closed(build_retriever("bm25", PASSAGES, index_dir=index))
    with connected(index) as connection:
        opened = MilvusIndex.open(connection)
        assert opened is not None
        monkeypatch.setattr(MilvusIndex, "write_rows", fail)
        with pytest.raises(KeyboardInterrupt):
            opened.add([Passage("new", "", "jazz")])
    with pytest.raises(MilvusError, match=r"file\.db: a change of this index was interrupted"):
        build_retriever("bm25", PASSAGES, index_dir=index)
    monkeypatch.undo()
    with connected(index) as connection:
        mended = MilvusIndex.open(connection, mend=True)
        assert mended is not None
        mended.refresh()
        assert found(MilvusWords(mended)) == found(Bm25Retriever(PASSAGES))
        mended.add([Passage("new", "", "jazz")])
        now = [*PASSAGES, Passage("new", "", "jazz")]
        assert found(MilvusWords(mended)) == found(Bm25Retriever(now))
    build_retriever("bm25", now, index_dir=index)


def test_two_builders_at_one_server_do_not_meet(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = f"{server}/both"

    def other(*_: Any) -> None:
        build_retriever("bm25", PASSAGES, index_dir=index)

    monkeypatch.setattr(MilvusIndex, "write_words", other)
    with pytest.raises(MilvusError, match="is being built by another process"):
        build_retriever("bm25", PASSAGES, index_dir=index)
    monkeypatch.undo()
    monkeypatch.setattr(milvus_index, "STALE_SECONDS", 0.0)
    assert found(build_retriever("bm25", PASSAGES, index_dir=index)) == found(
        Bm25Retriever(PASSAGES)
    )


def dated_anew(connection: Connection, seconds: float = 20.0) -> bool:
    """Return whether an index that is being built is dated again before the seconds end."""
    begun, end = written(connection), time.monotonic() + seconds
    while (now := written(connection)) == begun and time.monotonic() < end:
        time.sleep(0.02)
    return now > begun


def written(connection: Connection) -> float:
    about = read_about(connection)
    assert about is not None
    return about.written


@pytest.mark.parametrize("slow", ["words", "vectors"])
def test_a_build_that_takes_long_is_dated_while_it_goes_on(
    slow: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, seen = f"{server}/slow_{slow}", list[bool]()
    word_numbers = milvus_build.word_numbers

    class SlowEncoder(HashEncoder):
        def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
            if slow == "vectors":
                seen.append(dated_anew(other))
            return super()._embed(texts, batch_size)

    def counted(*given: Any) -> Any:
        if slow == "words":
            seen.append(dated_anew(other))
        return word_numbers(*given)

    monkeypatch.setattr(milvus_schema, "DATED_SECONDS", 0.05)
    monkeypatch.setattr(milvus_build, "word_numbers", counted)
    with connected(index) as connection, connected(index) as other:
        build_milvus(connection, PASSAGES, SlowEncoder())
        assert seen == [True]
        about = read_about(other)
        assert about is not None and (about.state, about.passages) == (WHOLE, len(PASSAGES))
        # Nothing dates it any more.
        assert "milvus-date" not in {thread.name for thread in threading.enumerate()}


def test_a_date_that_cannot_be_written_ends_no_build(
    server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = threading.Event()

    def fails(index: MilvusIndex) -> None:
        tried.set()
        raise MilvusError("no Milvus answers there in time")

    class SlowEncoder(HashEncoder):
        def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
            assert tried.wait(20)
            return super()._embed(texts, batch_size)

    monkeypatch.setattr(milvus_schema, "DATED_SECONDS", 0.01)
    monkeypatch.setattr(MilvusIndex, "date", fails)
    with connected(f"{server}/undated") as connection:
        assert build_milvus(connection, PASSAGES, SlowEncoder()).about.state == WHOLE
    assert "a build could not be dated: no Milvus answers" in caplog.text


def test_a_second_process_at_an_embedded_database_is_told(tmp_path: Path) -> None:
    from milvus_lite.db import MilvusLite

    # The lock of a database is that of an open file: here as good as another process's.
    other = MilvusLite(str(tmp_path / "file.db"))
    with pytest.raises(MilvusError, match=r"file\.db.*another process has.*milvus-lite server"):
        build_retriever("bm25", PASSAGES, index_dir=tmp_path / "file.db")
    other.close()
    build_retriever("bm25", PASSAGES, index_dir=tmp_path / "file.db")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no more than a second."""
    for name in ("CONNECT_SECONDS", "CALL_SECONDS"):
        monkeypatch.setattr(milvus_client, name, 1)


def test_a_server_that_is_down_is_named_with_the_remedy(impatient: None) -> None:
    address = f"http://127.0.0.1:{free_port()}/wiki"
    started = time.monotonic()
    with pytest.raises(MilvusError, match=rf"{address}: no Milvus answers.*Start one"):
        build_retriever("bm25", PASSAGES, index_dir=address)
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(("given", "seconds"), [("", 60), ("600", 600)])
def test_a_slow_server_is_given_more_seconds(
    given: str, seconds: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIVIUM_MILVUS_SECONDS", given)
    connection = milvus_client.Connection(milvus_client.Address.parse(str(tmp_path / "file.db")))
    asked: list[int] = []
    monkeypatch.setattr(
        connection._client, "list_collections", lambda timeout: asked.append(timeout), raising=True
    )
    connection.read("list_collections")
    connection.write("list_collections")
    connection.close()
    assert asked == [seconds, seconds]


@pytest.mark.parametrize("given", ["0", "-5", "1.5", "a minute", "²"])
def test_seconds_are_whole(given: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRIVIUM_MILVUS_SECONDS", given)
    with pytest.raises(MilvusError, match=f"TRIVIUM_MILVUS_SECONDS={given}: give whole seconds"):
        build_retriever("bm25", PASSAGES, index_dir=tmp_path / "file.db")


def test_a_server_that_says_nothing_is_waited_for_so_long(impatient: None) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(MilvusError, match="no Milvus answers there in time"):
            build_retriever("bm25", PASSAGES, index_dir=address)
        assert time.monotonic() - started < 20


def test_a_server_that_becomes_slow_is_asked_so_often(tmp_path: Path, impatient: None) -> None:
    asked: list[float] = []

    def search(self: Any, request: Any, context: Any) -> Any:
        asked.append(time.monotonic())
        time.sleep(2.0)
        return super(type(self), self).Search(request, context)

    with odd_server(tmp_path, Search=search) as address:
        retriever = build_retriever("bm25", PASSAGES, index_dir=address)
        with pytest.raises(MilvusError, match="no Milvus answers there in time"):
            retriever.search(["jazz"], 3)
    assert 1 <= len(asked) <= milvus_client.TRIES


def test_a_server_that_answers_half_is_not_believed(tmp_path: Path) -> None:
    halved: list[bool] = []

    def search(self: Any, request: Any, context: Any) -> Any:
        answer = super(type(self), self).Search(request, context)
        if halved:
            answer.results.topks[0] = 2
        return answer

    def query(self: Any, request: Any, context: Any) -> Any:
        answer = super(type(self), self).Query(request, context)
        if halved and "count(*)" in request.output_fields:
            answer.fields_data[0].scalars.long_data.data[0] -= 7
        return answer

    with odd_server(tmp_path, Search=search, Query=query) as address:
        retriever = build_retriever("dense", PASSAGES, "hash", address)
        halved.append(True)
        with pytest.raises(MilvusError, match="answered with 2 of 23 passages"):
            retriever.search(["jazz"], 7)
        with pytest.raises(MilvusError, match=f"answers with 53 of {len(PASSAGES)} passages"):
            build_retriever("dense", PASSAGES, "hash", address)


def test_an_old_server_is_refused_with_both_versions(tmp_path: Path) -> None:
    def old(self: Any, request: Any, context: Any) -> Any:
        answer = super(type(self), self).GetVersion(request, context)
        answer.version = "v2.2.16"
        return answer

    with (
        odd_server(tmp_path, GetVersion=old) as address,
        pytest.raises(MilvusError, match=r"runs Milvus v2\.2\.16, and 2\.4 or later is needed"),
    ):
        build_retriever("bm25", PASSAGES, index_dir=address)
    address = Address.parse("http://host:1")
    for version in ("2.4.1", "v2.6.0-dev", "milvus_lite-3.2.0", "unknown"):
        check_version(address, version)
    with pytest.raises(MilvusError, match=r"milvus_lite-2\.5"):
        check_version(address, "milvus_lite-2.5.1")


def test_the_token_comes_from_the_environment_and_is_never_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grpc

    seen: list[str] = []

    def connect(self: Any, request: Any, context: Any) -> Any:
        seen.append(dict(context.invocation_metadata()).get("authorization", ""))
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "auth check failure")

    monkeypatch.setenv(milvus_client.TOKEN_VARIABLE, "root:secret")
    with (
        odd_server(tmp_path, Connect=connect, GetVersion=connect) as address,
        pytest.raises(MilvusError) as caught,
    ):
        build_retriever("bm25", PASSAGES, index_dir=address)
    assert seen and all(seen)
    said = str(caught.value)
    assert "wants USER:PASSWORD in TRIVIUM_MILVUS_TOKEN" in said and "secret" not in said


@pytest.mark.parametrize(
    "given_address", ["http://host:1/a-b", "http:///x", "http://h:1/a/b", "http://h:1/a__words"]
)
def test_an_address_of_another_form_is_an_error(given_address: str) -> None:
    with pytest.raises(UserError, match="HOST:PORT/NAME"):
        Address.parse(given_address)


def test_many_passages_are_searched_by_clusters_or_all_where_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus_build, "EXACT_UP_TO", 50)
    expected = found(DenseRetriever(PASSAGES, HashEncoder()))
    index = str(tmp_path / "many.db")
    retriever = build_retriever("dense", PASSAGES, "hash", index)
    assert retriever.index.about.search == "approximate"
    share = np.mean(
        [
            len({p for p, _ in own} & {p for p, _ in best}) / 7
            for own, best in zip(found(retriever), expected, strict=True)
        ]
    )
    assert share > 0.9
    with pytest.raises(IndexMismatchError, match="search"):
        build_retriever("dense", PASSAGES, "hash", index, exact=True)
    exact = build_retriever("dense", PASSAGES, "hash", str(tmp_path / "exact.db"), exact=True)
    assert found(exact) == expected
