"""A corpus that stays in its file: the same passages, and what is kept about it is checked."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.retrieval import corpus as corpus_module
from inference.retrieval.corpus import (
    ChangedCorpusError,
    MappedCorpus,
    open_corpus,
    passages_by_id,
)
from inference.retrieval.dense import DenseRetriever
from inference.retrieval.open_retriever import FUSED, build_retriever
from inference.retrieval.passages import (
    EmptyCorpusError,
    Passage,
    corpus_fingerprint,
    load_corpus,
)
from inference.retrieval.vectors import VectorIndex
from models.files.sentence_encoder import HashEncoder
from models.formats.records import RecordError, write_records

PASSAGES = [Passage(f"p{n}", f"Töpic {n % 7}", f"Note {n} says so — ½.") for n in range(60)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_records(tmp_path / "corpus.jsonl", PASSAGES)
    return tmp_path / "corpus.jsonl"


def test_it_is_the_list_that_the_file_holds(path: Path, tmp_path: Path) -> None:
    for folder in (None, tmp_path / "kept", tmp_path / "kept"):
        mapped = MappedCorpus.open(path, folder)
        assert list(mapped) == load_corpus(path) == mapped[:]
        assert (mapped[3], mapped[-1], mapped[5:2:-1]) == (
            PASSAGES[3],
            PASSAGES[-1],
            PASSAGES[5:2:-1],
        )
        assert mapped.fingerprint == corpus_fingerprint(PASSAGES)
        assert corpus_fingerprint(mapped) == corpus_fingerprint(PASSAGES)
        with pytest.raises(IndexError):
            mapped[60]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
records = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=12)


@given(fields=records, blank=st.lists(st.sampled_from(["", " ", "\t"]), max_size=3))
def test_any_passages_come_back_and_are_found_by_their_ids(
    fields: list[tuple[str, str, str]], blank: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    passages = [Passage(*each) for each in fields]
    lines = [json.dumps(passage.to_json()) for passage in passages]
    text = "\n".join([*blank, "\n\n".join(lines), *blank])
    (folder / "corpus.jsonl").write_text(text, encoding="utf-8")
    for _ in range(2):
        mapped = MappedCorpus.open(folder / "corpus.jsonl", folder / "kept")
        assert list(mapped) == passages
        named = passages_by_id(mapped)
        assert {name: named[name] for name in named} == passages_by_id(passages)
        assert named.get("not there") is None


def test_ids_of_one_hash_are_told_apart(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "_id_hash", lambda name: len(name))
    named = passages_by_id(MappedCorpus.open(path))
    assert all(named[passage.id] == passage for passage in PASSAGES)
    assert "p99" not in named


def test_nothing_is_read_again_while_the_file_is_the_same(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = MappedCorpus.open(path, tmp_path / "kept")
    monkeypatch.setattr(corpus_module, "_scan", None)
    assert MappedCorpus.open(path, tmp_path / "kept").state == first.state
    # Another time of change, the same bytes: the hash decides, once.
    os.utime(path, ns=(1, 1))
    assert MappedCorpus.open(path, tmp_path / "kept")[59] == PASSAGES[59]
    monkeypatch.setattr(corpus_module, "file_sha256", None)
    assert MappedCorpus.open(path, tmp_path / "kept").state.modified_ns == 1


@pytest.mark.parametrize("same_size", [True, False])
def test_a_changed_file_is_read_anew(path: Path, tmp_path: Path, same_size: bool) -> None:
    MappedCorpus.open(path, tmp_path / "kept")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Note 7", "Nota 7" if same_size else "No. 7"), encoding="utf-8")
    os.utime(path, ns=(2, 2))
    changed = MappedCorpus.open(path, tmp_path / "kept")
    assert changed[7].text.startswith("Nota 7" if same_size else "No. 7")
    assert changed.fingerprint == corpus_fingerprint(load_corpus(path))


@pytest.mark.parametrize("name", ["meta.json", "offsets.npy", "id_rows.npy"])
def test_what_is_kept_and_broken_is_made_again(path: Path, tmp_path: Path, name: str) -> None:
    MappedCorpus.open(path, tmp_path / "kept")
    (tmp_path / "kept" / name).write_bytes(b"{")
    assert list(MappedCorpus.open(path, tmp_path / "kept")) == PASSAGES


def test_a_folder_that_cannot_be_written_costs_memory_and_no_failure(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    assert list(MappedCorpus.open(path, tmp_path / "file" / "kept")) == PASSAGES
    assert "is kept in memory" in caplog.text


def test_a_file_cut_short_while_it_is_open_is_an_error(path: Path) -> None:
    mapped = MappedCorpus.open(path)
    os.truncate(path, 100)
    with pytest.raises(ChangedCorpusError, match=r"corpus\.jsonl.*renaming"):
        mapped[59]


def test_bad_files_are_errors_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "title": "a", "text": "b"}\n{"id": "2", "title": "a"}\n')
    with pytest.raises(RecordError, match=r"corpus\.jsonl:2.*text"):
        MappedCorpus.open(path, tmp_path / "kept")
    path.write_text("\n")
    with pytest.raises(EmptyCorpusError, match=r"corpus\.jsonl"):
        MappedCorpus.open(path)
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("kind", ["bm25", "dense", "hybrid"])
def test_mapped_and_in_memory_indexes_find_the_same(kind: str, path: Path, tmp_path: Path) -> None:
    queries = [f"Which topic says {n}?" for n in range(9)]
    expected = build_retriever(kind, PASSAGES, "hash").search(queries, 7)
    for _ in range(2):
        corpus = open_corpus(path, tmp_path / "index")
        assert isinstance(corpus, MappedCorpus)
        found = build_retriever(kind, corpus, "hash", tmp_path / "index")
        assert found.search(queries, 7) == expected
        assert [found.search([query], 7)[0] for query in queries] == expected


def test_an_index_is_opened_without_reading_the_corpus(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_retriever("hybrid", open_corpus(path, tmp_path / "i"), "hash", tmp_path / "i")
    corpus = open_corpus(path, tmp_path / "i")
    read: list[object] = []
    own = MappedCorpus.__getitem__

    def noted(self: MappedCorpus, row: int) -> object:
        read.append(row)
        return own(self, row)

    monkeypatch.setattr(MappedCorpus, "__getitem__", noted)
    retriever = build_retriever("hybrid", corpus, "hash", tmp_path / "i")
    assert not read
    retriever.search(["Which topic says 7?"], 3)
    # Those that both rankings give to the fusion, and no others.
    assert 0 < len(read) <= 2 * FUSED


def test_a_mapped_index_can_be_added_to(path: Path, tmp_path: Path) -> None:
    encoder = HashEncoder()
    DenseRetriever(PASSAGES[:40], encoder).save(tmp_path / "dense")
    loaded = DenseRetriever.load(tmp_path / "dense", PASSAGES[:40], encoder)
    loaded.add(PASSAGES[40:])
    whole = DenseRetriever(PASSAGES, encoder)
    assert loaded.search(["topic 3"], 60) == whole.search(["topic 3"], 60)
    again = DenseRetriever.load(tmp_path / "dense", PASSAGES[:40], encoder)
    assert len(again.index) == 40


def clustered_vectors(count: int) -> np.ndarray:
    draw = np.random.default_rng(3)
    centres = draw.normal(size=(40, 24))
    vectors = centres[draw.integers(40, size=count)] + 0.5 * draw.normal(size=(count, 24))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_an_approximate_index_has_the_recall_that_it_says(tmp_path: Path) -> None:
    vectors = clustered_vectors(4000)
    exact = VectorIndex(24)
    exact.add(vectors)
    made, about = exact.clustered(vectors[:200])
    assert exact.is_exact and not made.is_exact and len(made) == 4000
    assert about["lists"] == 252 and about["lists_searched"] < 252
    made.save(tmp_path / "index")
    for index in (made, VectorIndex.load(tmp_path / "index", mapped=True)):
        shares = []
        pairs = (each.nearest(vectors[:200], 10) for each in (exact, index))
        for wanted, found in zip(*pairs, strict=True):
            shares.append(len(dict(wanted).keys() & dict(found).keys()) / 10)
            both = dict(wanted).keys() & dict(found).keys()
            assert all(dict(wanted)[row] == dict(found)[row] for row in both)
        assert np.mean(shares) == pytest.approx(about["recall_at_10"], abs=0.01)
        assert np.array_equal(index.vectors(), vectors)
    assert about["recall_at_10"] >= 0.95


def test_many_passages_are_searched_approximately_unless_exact_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.setattr("inference.retrieval.dense.EXACT_UP_TO", 50)
    monkeypatch.setattr("inference.retrieval.dense.SAMPLED", 20)
    build_retriever("dense", open_corpus(path, tmp_path / "a"), "hash", tmp_path / "a")
    meta = json.loads((tmp_path / "a" / "dense" / "meta.json").read_text())
    assert meta["search"] == "approximate" and 0 < meta["recall_at_10"] <= 1
    with pytest.raises(ValueError, match="differs in search"):
        build_retriever("dense", PASSAGES, "hash", tmp_path / "a", exact=True)
    found = build_retriever("dense", PASSAGES, "hash", tmp_path / "b", exact=True)
    assert json.loads((tmp_path / "b" / "dense" / "meta.json").read_text())["search"] == "exact"
    assert found.search(["topic"], 60) == DenseRetriever(
        PASSAGES, HashEncoder(), exact=True
    ).search(["topic"], 60)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 12))
def test_equal_vectors_come_in_the_order_of_their_rows(which: list[int], top_k: int) -> None:
    axes = np.eye(4, dtype=np.float32)
    index = VectorIndex(4)
    index.add(axes[which])
    query = np.array([[0.8, 0.6, 0.0, 0.0]], dtype=np.float32)
    expected = sorted(range(len(which)), key=lambda row: (-query[0, which[row]], row))[:top_k]
    assert [row for row, _ in index.nearest(query, top_k)[0]] == expected
