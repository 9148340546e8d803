"""The index of a corpus, built and brought up to it: in a folder, in Milvus, by the command."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import UserError
from inference.build_index import main
from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.corpus import MappedCorpus, open_corpus
from inference.retrieval.open_retriever import build_retriever
from inference.retrieval.passages import Passage, contents_sum
from models.files.sentence_encoder import HashEncoder
from models.formats.records import write_records
from tests.run_main import Run, json_runner

pytest.importorskip("milvus_lite", reason="the extra `milvus` is not installed")

from inference.retrieval.milvus_client import Address, Connection
from inference.retrieval.milvus_index import MilvusIndex
from inference.retrieval.milvus_search import MilvusVectors, MilvusWords
from inference.retrieval.milvus_update import Update, update_milvus

WORDS = ["river", "jazz", "engine", "island", "chess", "piano"]
QUERIES = [*WORDS, "jazz piano", "the island engine"]
FIRST = {f"p{n}": f"{WORDS[n % 6]} and {WORDS[n % 5]}" for n in range(20)}


def corpus_of(folder: Path, texts: Mapping[str, str]) -> Path:
    path = folder / "corpus.jsonl"
    write_records(path, [Passage(name, "Tale", text) for name, text in texts.items()])
    return path


def scores(retriever: Any, queries: Sequence[str] = QUERIES) -> list[dict[Passage, float]]:
    """What is found and with which scores; equal ones may come in any order."""
    return [{h.passage: h.score for h in hits} for hits in retriever.search(queries, 100)]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    always = ("--encoder", "hash", "--title-weight", "1")
    return json_runner(monkeypatch, capsys, tmp_path / "cache", *always)


texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
corpora = st.dictionaries(st.sampled_from([f"p{n}" for n in range(12)]), texts, min_size=1)


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.tuples(corpora, st.booleans()), min_size=2, max_size=4))
def test_after_any_updates_it_holds_the_corpus(
    steps: list[tuple[dict[str, str], bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("update")
    connection = Connection(Address.parse(str(folder / "file.db")))
    there: dict[str, str] = {}
    for now, refresh in steps:
        corpus = MappedCorpus.open(corpus_of(folder, now))
        done = update_milvus(connection, corpus, HashEncoder(), 1, refresh=refresh)
        both = there.keys() & now.keys()
        same = sum(there[name] == now[name] for name in both)
        expected = (len(now) - len(both), len(both) - same, len(there) - len(both), same)
        assert (done.added, done.replaced, done.removed, done.unchanged) == expected
        index = MilvusIndex.open(connection, HashEncoder())
        assert index is not None and index.about.contents == contents_sum(corpus)
        assert scores(MilvusWords(index)) == scores(Bm25Retriever(list(corpus)))
        expected_vectors = build_retriever("dense", list(corpus), "hash")
        assert scores(MilvusVectors(index, HashEncoder())) == scores(expected_vectors)
        there = now
    connection.close()


def test_the_command_changes_in_milvus_what_has_changed(run: Run, tmp_path: Path) -> None:
    index = tmp_path / "file.db"
    path = corpus_of(tmp_path, FIRST)
    built = run(main, "--corpus", path, "--index", index)
    assert (built["passages"], built["added"], built["unchanged"]) == (20, 20, 0)
    now = {**FIRST, "p3": "a new river", "new": "jazz"}
    del now["p7"]
    path = corpus_of(tmp_path, now)
    with pytest.raises(UserError, match=r"bring it up to the corpus with .*build_index\.py"):
        build_retriever("hybrid", open_corpus(path, index), "hash", index)
    kept = run(main, "--corpus", path, "--index", index, "--keep")
    assert (kept["added"], kept["replaced"], kept["removed"], kept["unchanged"]) == (1, 1, 0, 18)
    removed = run(main, "--corpus", path, "--index", index)
    assert (removed["added"], removed["replaced"], removed["removed"]) == (0, 0, 1)
    retriever = build_retriever("hybrid", open_corpus(path, index), "hash", index)
    for part in retriever.retrievers:  # type: ignore[attr-defined]
        part.index.close()


def test_a_folder_is_built_anew_and_what_is_known_is_not_embedded_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, path = tmp_path / "index", corpus_of(tmp_path, FIRST)
    assert run(main, "--corpus", path, "--index", index)["renewed"] is False
    assert run(main, "--corpus", path, "--index", index)["renewed"] is False
    path = corpus_of(tmp_path, {**FIRST, "new": "jazz"})
    embedded: list[str] = []
    encode = HashEncoder.encode

    def counted(self: HashEncoder, texts: Sequence[str]) -> Any:
        embedded.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(HashEncoder, "encode", counted)
    assert run(main, "--corpus", path, "--index", index)["renewed"] is True
    assert embedded == ["Tale: jazz"]
    corpus = open_corpus(path, index)
    assert scores(build_retriever("bm25", corpus, index_dir=index)) == scores(
        Bm25Retriever(list(corpus))
    )


@pytest.mark.parametrize(
    ("lines", "more", "message"),
    [
        ([], [], "the corpus holds no passage"),
        ([("new", "a"), ("new", "b")], [], "has the id 'new' twice"),
        ([("p1", "x" * 70_000)], [], "text has 70000 bytes"),
        ([("p1", "a")], ["--title-weight", "3"], "title_weight"),
    ],
)
def test_what_cannot_be_taken_in_changes_nothing(
    lines: list[tuple[str, str]],
    more: list[str],
    message: str,
    run: Run,
    tmp_path: Path,
) -> None:
    index, path = tmp_path / "file.db", corpus_of(tmp_path, {"p1": "jazz", "p2": "river"})
    run(main, "--corpus", path, "--index", index)
    other = tmp_path / "other.jsonl"
    other.write_text(
        "".join(json.dumps({"id": n, "title": "T", "text": t}) + "\n" for n, t in lines)
    )
    with pytest.raises(SystemExit, match=message):
        run(main, "--corpus", other, "--index", index, "--keep", *more)
    unchanged = run(main, "--corpus", path, "--index", index, "--keep")
    assert unchanged["replaced"] == unchanged["added"] == 0


def test_an_update_that_was_interrupted_is_mended_and_goes_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, path = tmp_path / "file.db", corpus_of(tmp_path, FIRST)
    run(main, "--corpus", path, "--index", index)
    path = corpus_of(tmp_path, {**FIRST, "p3": "a new river", "new": "jazz"})

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MilvusIndex, "write_rows", fail)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            run(main, "--corpus", path, "--index", index)
    done = run(main, "--corpus", path, "--index", index)
    assert (done["added"], done["replaced"], done["unchanged"]) == (1, 1, 19)
    again = run(main, "--corpus", path, "--index", index)
    assert Update(0, 0, 0, 21, again["drift"]).counts.items() <= again.items()


def test_a_folder_takes_no_options_of_milvus(run: Run, tmp_path: Path) -> None:
    path = corpus_of(tmp_path, FIRST)
    with pytest.raises(SystemExit, match="Leave out --keep and --refresh"):
        run(main, "--corpus", path, "--index", tmp_path / "index", "--keep")
