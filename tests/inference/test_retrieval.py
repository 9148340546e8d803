"""Retrievers against plain computation, and what their saved indexes refuse."""

import json
from pathlib import Path

import bm25s
import numpy as np
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.dense import DenseRetriever
from inference.retrieval.open_retriever import (
    HybridRetriever,
    build_retriever,
    reciprocal_rank_fusion,
)
from inference.retrieval.passages import (
    EmptyCorpusError,
    Hit,
    IndexMismatchError,
    Passage,
    clean_queries,
    load_corpus,
    top_hits,
)
from inference.retrieval.vectors import VectorIndex
from models.files.sentence_encoder import FloatArray, HashEncoder, load_sentence_encoder
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord, RecordError, read_records
from tests.shared_data import shared_data_file

TOPICS = ["rivers of Spain", "jazz piano", "volcanic islands", "steam engines", "chess openings"]
PASSAGES = [
    Passage(f"p{n}", f"{TOPICS[n % 5].title()} {n}", f"A note on {TOPICS[n % 5]}, number {n * 7}.")
    for n in range(40)
]
QUERIES = ["Which islands are volcanic?", "a pianist of jazz", "running engines", "number 21"]


class OtherEncoder(HashEncoder):
    """The same vectors under another identity."""

    name = "other"
    fingerprint = "32-other"


def ids(hits: list[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


def test_vectors_are_found_in_order_and_again_from_a_file(tmp_path: Path) -> None:
    rows = np.eye(4, dtype=np.float32)[[0, 1, 0, 2]]
    index = VectorIndex(4)
    assert index.search(rows[:1], 3) == [[]] and index.search(rows[:0], 3) == []
    index.add(rows[:2])
    index.add(rows[2:])
    index.save(tmp_path / "index")
    for same in (index, VectorIndex.load(tmp_path / "index")):
        assert len(same) == 4 and same.search(rows[:2], 0) == [[], []]
        assert [same.search(rows[:1], 9)[0][place] for place in (0, 1)] == [(0, 1.0), (2, 1.0)]
        assert same.search(rows[1:2], 1) == [[(1, 1.0)]]


def test_bm25_scores_equal_the_library_itself() -> None:
    stemmer = Stemmer.Stemmer("english")
    texts = [f"{passage.title} {passage.text}" for passage in PASSAGES]
    index = bm25s.BM25()
    corpus = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    index.index(corpus, show_progress=False)
    tokens = bm25s.tokenize(QUERIES, stopwords="en", stemmer=stemmer, show_progress=False)
    _, scores = index.retrieve(tokens, k=5, show_progress=False)
    found = Bm25Retriever(PASSAGES).search(QUERIES, 5)
    for expected, hits in zip(scores, found, strict=True):
        positive = [score for score in expected if score > 0]
        assert [hit.score for hit in hits] == pytest.approx(positive)


def test_bm25_breaks_ties_in_corpus_order_and_leaves_out_what_shares_no_word() -> None:
    twins = [Passage(str(n), "same", "identical words") for n in range(6)]
    assert ids(Bm25Retriever(twins).search(["identical"], 4)[0]) == ["0", "1", "2", "3"]
    assert Bm25Retriever(twins).search(["nothing alike", "", "the"], 4) == [[], [], []]
    assert Bm25Retriever(twins).search([], 4) == []


@pytest.mark.parametrize("kind", ["bm25", "hybrid"])
@pytest.mark.parametrize("text", ["the of a", "的", "!!", ""])
def test_a_corpus_without_a_word_to_search_by_is_told(text: str, kind: str) -> None:
    passages = [Passage("1", "", text), Passage("2", "A", text)]
    with pytest.raises(EmptyCorpusError, match=r"2 passages.* Search it with --retriever dense"):
        build_retriever(kind, passages, "hash")
    assert build_retriever("dense", passages, "hash").search(["the"], 1)[0]


def test_bm25_title_weight_prefers_the_passage_about_the_entity() -> None:
    pair = [Passage("mention", "Else", "Chess chess clubs"), Passage("about", "Chess", "A game.")]
    padding = [Passage(f"x{n}", "Other", "Something else altogether") for n in range(5)]
    heavy = Bm25Retriever([*pair, *padding], title_weight=4)
    assert ids(heavy.search(["chess"], 1)[0]) == ["about"]


def test_dense_equals_brute_force() -> None:
    encoder = HashEncoder()
    found = DenseRetriever(PASSAGES, encoder).search(QUERIES, 7)
    vectors = encoder.encode([passage_text(passage.title, passage.text) for passage in PASSAGES])
    similarity = encoder.encode(QUERIES) @ vectors.T
    for row, hits in zip(similarity, found, strict=True):
        assert [hit.score for hit in hits] == pytest.approx(np.sort(row)[::-1][:7], abs=1e-6)
        own = [row[PASSAGES.index(hit.passage)] for hit in hits]
        assert [hit.score for hit in hits] == pytest.approx(own, abs=1e-6)


@pytest.mark.parametrize("kind", ["bm25", "dense", "hybrid"])
def test_a_saved_index_finds_the_same_and_a_tag_changes_nothing(kind: str, tmp_path: Path) -> None:
    fresh = build_retriever(kind, PASSAGES, "hash", tmp_path).search(QUERIES, 5)
    loaded = build_retriever(kind, PASSAGES, "hash", tmp_path)
    assert loaded.search(QUERIES, 5) == fresh
    assert loaded.search([f"[SUBQ] {query}" for query in QUERIES], 5) == fresh
    assert not list(tmp_path.rglob("*.pkl"))


def test_an_index_of_another_encoder_is_refused_with_both_names(tmp_path: Path) -> None:
    DenseRetriever(PASSAGES, HashEncoder()).save(tmp_path / "dense")
    with pytest.raises(IndexMismatchError) as caught:
        DenseRetriever.load(tmp_path / "dense", PASSAGES, OtherEncoder())
    for part in ("encoder_fingerprint", "encoder hash", "encoder other", str(tmp_path), "Rebuild"):
        assert part in str(caught.value)


@pytest.mark.parametrize("kind", ["bm25", "dense"])
def test_an_index_of_another_corpus_is_refused(kind: str, tmp_path: Path) -> None:
    build_retriever(kind, PASSAGES, "hash", tmp_path)
    with pytest.raises(IndexMismatchError, match="corpus_sha256"):
        build_retriever(kind, PASSAGES[:-1], "hash", tmp_path)


def test_a_broken_index_is_refused(tmp_path: Path) -> None:
    build_retriever("bm25", PASSAGES, index_dir=tmp_path)
    (tmp_path / "bm25" / "meta.json").write_text("{")
    with pytest.raises(IndexMismatchError, match="not a readable index"):
        build_retriever("bm25", PASSAGES, index_dir=tmp_path)


def test_an_empty_corpus_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text("")
    with pytest.raises(EmptyCorpusError, match=r"corpus\.jsonl"):
        load_corpus(path)
    with pytest.raises(EmptyCorpusError):
        build_retriever("bm25", [])


def test_a_bad_passage_is_an_error_that_names_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "title": "a", "text": "b"}\n{"id": "2", "title": "a"}\n')
    with pytest.raises(RecordError, match=r"corpus\.jsonl:2.*text"):
        load_corpus(path)


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="bm25, dense, hybrid"):
        build_retriever("sparse", PASSAGES)


def test_queries_lose_their_tag_wherever_it_stands() -> None:
    assert clean_queries(["[SUBQ] who?", "who? [SUBQ]", "[SUBQ][SUBQ] who?"]) == ["who?"] * 3


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=40), st.integers(1, 50))
def test_top_hits_is_a_stable_sort(scores: list[float], top_k: int) -> None:
    hits = top_hits(PASSAGES, np.array(scores), top_k)
    order = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:top_k]
    assert ids(hits) == [PASSAGES[row].id for row in order]


rankings_of_passages = st.lists(
    st.lists(st.sampled_from(PASSAGES[:8]), unique=True, max_size=8).map(
        lambda found: [Hit(passage, 0.0) for passage in found]
    ),
    max_size=4,
)


@given(rankings_of_passages)
def test_fusion_holds_each_passage_once_and_sorted(rankings: list[list[Hit]]) -> None:
    fused = reciprocal_rank_fusion(rankings)
    assert len(set(ids(fused))) == len(fused)
    assert set(ids(fused)) == {hit.passage.id for ranking in rankings for hit in ranking}
    assert [hit.score for hit in fused] == sorted((hit.score for hit in fused), reverse=True)
    for hit in fused:
        ranks = [
            ids(ranking).index(hit.passage.id) + 1
            for ranking in rankings
            if hit.passage.id in ids(ranking)
        ]
        assert hit.score == pytest.approx(sum(1 / (60 + rank) for rank in ranks))


@given(rankings_of_passages)
def test_fusion_of_one_ranking_keeps_its_order(rankings: list[list[Hit]]) -> None:
    for ranking in rankings:
        assert ids(reciprocal_rank_fusion([ranking])) == ids(ranking)
        assert ids(reciprocal_rank_fusion([ranking, ranking])) == ids(ranking)


def test_the_hybrid_prefers_what_both_find() -> None:
    words, meaning = Bm25Retriever(PASSAGES), DenseRetriever(PASSAGES, HashEncoder())
    found = HybridRetriever([words, meaning]).search(["jazz piano 1"], 3)[0]
    assert found[0].passage.id == "p1"


MEANINGS = {
    "The physician treats sick people in the hospital.": "doctor healing patients at a clinic",
    "A feline slept on the sofa.": "cat napping upon a couch",
    "The automobile needs petrol.": "car running out of gas",
    "She authored several novels.": "woman who wrote books",
    "The monarch ruled for decades.": "king's long reign",
}


def test_the_default_encoder_finds_by_meaning_what_shares_no_word() -> None:
    passages = [Passage(str(n), "", text) for n, text in enumerate(MEANINGS)]
    queries, encoder = list(MEANINGS.values()), load_sentence_encoder("minilm")
    words, meaning = Bm25Retriever(passages), DenseRetriever(passages, encoder)
    assert words.search(queries, 5) == [[]] * 5
    for retriever in (meaning, HybridRetriever([words, meaning])):
        assert [ids(hits)[0] for hits in retriever.search(queries, 5)] == ["0", "1", "2", "3", "4"]


@pytest.mark.slow
def test_bm25_finds_all_gold_passages_in_the_top_five_of_2wiki() -> None:
    questions = list(
        read_records(shared_data_file("qa/2wikimultihopqa_test.jsonl"), QuestionRecord)
    )
    passages = load_corpus(shared_data_file("corpus/2wikimultihopqa.jsonl"))
    found = build_retriever("bm25", passages).search([q.question for q in questions], 5)
    hits = [
        {title for title, _ in question.supporting_facts} <= {hit.passage.title for hit in five}
        for question, five in zip(questions, found, strict=True)
    ]
    assert np.mean(hits) == pytest.approx(0.35, abs=0.03)


def test_meta_names_what_an_index_was_built_from(tmp_path: Path) -> None:
    build_retriever("dense", PASSAGES, "hash", tmp_path)
    meta = json.loads((tmp_path / "dense" / "meta.json").read_text())
    assert meta["encoder"] == "hash"
    assert meta["encoder_fingerprint"] == load_sentence_encoder("hash").fingerprint
    assert len(meta["corpus_sha256"]) == 64


class CountingEncoder(HashEncoder):
    """Notes the texts that it embeds."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
        self.embedded += texts
        return super()._embed(texts, batch_size)


def test_an_index_grows_from_an_earlier_one_without_embedding_twice(tmp_path: Path) -> None:
    DenseRetriever(PASSAGES[:30], HashEncoder()).save(tmp_path / "earlier")
    now = [*PASSAGES[35:], *PASSAGES[10:30]]
    encoder = CountingEncoder()
    grown = DenseRetriever.grown(tmp_path / "earlier", now, encoder)
    assert set(encoder.embedded) == {passage_text(p.title, p.text) for p in PASSAGES[35:]}
    whole = DenseRetriever(now, HashEncoder())
    assert grown.search(QUERIES, 9) == whole.search(QUERIES, 9)
    (tmp_path / "earlier" / "keys.json").write_text("[", encoding="utf-8")
    for folder, other in (("earlier", CountingEncoder()), ("none", CountingEncoder())):
        anew = DenseRetriever.grown(tmp_path / folder, now, other)
        assert len(other.embedded) == len(now)
        assert anew.search(QUERIES, 9) == whole.search(QUERIES, 9)


def test_another_encoder_s_vectors_are_not_taken_over(tmp_path: Path) -> None:
    DenseRetriever(PASSAGES, OtherEncoder()).save(tmp_path / "earlier")
    encoder = CountingEncoder()
    DenseRetriever.grown(tmp_path / "earlier", PASSAGES, encoder)
    assert len(encoder.embedded) == len(PASSAGES)
