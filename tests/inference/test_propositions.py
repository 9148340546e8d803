"""The proposition index: merging, adding, searching exactly, and what is refused."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scripted_world.gold_world import GoldWorld, make_world
from benchmarks.scripted_world.scripted_engine import ScriptedEngine, WideHashEncoder
from benchmarks.scripted_world.world_model import WorldModel
from common.errors import RecordError
from inference.build_propositions import add_to_index
from inference.engines.contract import EngineError, Request
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.indexes.growing import DuplicateDocumentError
from inference.indexes.propositions.index import (
    PassageSearch,
    PropositionIndex,
    PropositionSearch,
    open_index,
    ranked,
)
from inference.indexes.propositions.parts import Document, PropositionIndexError
from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.passages import IndexMismatchError, Passage
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.prompts import passage_text, triples_prompt
from models.formats.triples import Triple

ENCODER = WideHashEncoder()
DIRECTOR = Triple("Dawn", "director", "Ana Lis")
YEAR = Triple("Dawn", "publication date", "1966")
BORN = Triple("Ana Lis", "place of birth", "Brill")


def document(number: int, *triples: Triple) -> Document:
    return Document(f"d{number}", f"key {number}", triples)


def index_of(*documents: Document) -> PropositionIndex:
    index = PropositionIndex(ENCODER)
    index.add(documents)
    return index


def contents(index: PropositionIndex) -> list[tuple[str, list[str]]]:
    return [(p.text, p.sources) for p in index.propositions]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> GoldWorld:
    return make_world(tmp_path_factory.mktemp("world") / "world")


def world_documents(world: GoldWorld) -> list[Document]:
    return [
        Document(p.id, "key", tuple(world.facts[passage_text(p.title, p.text)]))
        for p in world.passages
    ]


def test_a_repeated_fact_is_one_proposition_with_all_its_sources() -> None:
    again = Triple("dawn", "Director", "Ana  Lis")
    index = index_of(document(1, DIRECTOR, YEAR, again), document(2, again), document(3, BORN))
    assert contents(index) == [
        ("Dawn director Ana Lis", ["d1", "d2"]),
        ("Dawn publication date 1966", ["d1"]),
        ("Ana Lis place of birth Brill", ["d3"]),
    ]
    with pytest.raises(ValueError, match="'d2' is in the index already"):
        index.add([document(2, YEAR)])


def all_scores(index: PropositionIndex, queries: Sequence[str]) -> np.ndarray:
    texts = [proposition.text for proposition in index.propositions]
    scores: np.ndarray = ENCODER.encode(texts) @ ENCODER.encode(queries).T
    return scores.max(axis=1)


@pytest.mark.parametrize("first_depth", [1, 3, 64, 10_000])
def test_the_ranking_is_that_of_the_whole_index(world: GoldWorld, first_depth: int) -> None:
    index = index_of(*world_documents(world))
    names = [passage.title for passage in world.passages]
    for queries in ([f"{names[3]} director"], [names[7], f"{names[50]} born", names[100]]):
        rows = list(ranked(index, queries, first_depth))
        assert sorted(rows) == list(range(len(index.propositions)))
        scores = all_scores(index, queries)[rows]
        assert np.all(np.diff(scores) <= 1.1e-5)


def test_retrieval_goes_on_until_k_distinct_passages(world: GoldWorld) -> None:
    """Algorithm 2, spelt out over all propositions."""
    documents = world_documents(world)
    shared = documents[0].triples[0]
    documents += [Document(f"again {n}", "key", (shared,)) for n in range(4)]
    index = index_of(*documents)
    passages = {d.id: Passage(d.id, d.id, "") for d in documents}
    search = PropositionSearch(index, passages)
    for top_k in (1, 3, 5, 300):
        queries = [f"{world.passages[9].title} born in", shared.subject]
        found = search.find(queries, top_k)
        scores = all_scores(index, queries)
        facts: list[Triple] = []
        sources: dict[str, None] = {}
        texts = [proposition.text for proposition in index.propositions]
        for row in sorted(range(len(texts)), key=lambda r: (-round(float(scores[r]), 5), texts[r])):
            if len(sources) >= top_k:
                break
            facts.append(index.propositions[row].fact)
            fresh = [s for s in index.propositions[row].sources if s not in sources]
            sources.update(dict.fromkeys(fresh[: top_k - len(sources)]))
        assert len(found.passages) == min(top_k, len(passages)) == len(set(sources))
        assert found.facts == facts
        assert [passage.id for passage in found.passages] == list(sources)


def test_one_query_does_not_take_the_place_of_another(world: GoldWorld) -> None:
    """Ranked together: the closest proposition of every query is there when k allows it."""
    index = index_of(*world_documents(world))
    search = PropositionSearch(index, {p.id: p for p in world.passages})
    facts = [world.facts[passage_text(p.title, p.text)][0] for p in world.passages[:20:5]]
    found = search.find([f"{f.subject} {f.predicate} {f.object}" for f in facts], 4)
    assert set(facts) <= set(found.facts) and len(found.passages) == 4
    assert search.find([], 4).passages == []


def test_passages_in_place_of_propositions(world: GoldWorld) -> None:
    search = PassageSearch(Bm25Retriever(world.passages))
    first, second = (passage.title for passage in world.passages[5:7])
    found = search.find([first, second, first], 3)
    assert found.facts == [] and len(found.passages) == 3
    assert len({passage.id for passage in found.passages}) == 3


@given(st.lists(st.integers(1, 60), max_size=4))
def test_adding_in_parts_is_a_fresh_build(cuts: list[int]) -> None:
    facts = [Triple(f"Person {n % 37}", "knows", f"Person {n * n % 41}") for n in range(60)]
    documents = [document(n, fact, YEAR) for n, fact in enumerate(facts)]
    grown = PropositionIndex(ENCODER)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 60], strict=True):
        grown.add(documents[start:end])
    fresh = index_of(*documents)
    assert contents(grown) == contents(fresh)
    query = fresh.embed(["Person 5 knows"])
    assert grown.nearest(query, 60) == fresh.nearest(query, 60)


@given(st.permutations(range(30)), st.integers(1, 12))
def test_the_order_of_additions_does_not_matter(order: list[int], top_k: int) -> None:
    documents = [
        document(n, YEAR, Triple(f"Person {n % 7}", "knows", f"Person {n % 5}")) for n in range(30)
    ]
    passages = {d.id: Passage(d.id, d.id, "") for d in documents}
    fresh = PropositionSearch(index_of(*documents), passages)
    grown = PropositionIndex(ENCODER)
    for number in order:
        grown.add([documents[number]])
    queries = ["Person 3 knows", "Dawn"]
    assert PropositionSearch(grown, passages).find(queries, top_k) == fresh.find(queries, top_k)


class CountingEncoder(WideHashEncoder):
    """Counts the texts that it embeds."""

    texts = 0

    def _embed(self, texts: list[str], batch_size: int) -> np.ndarray:
        self.texts += len(texts)
        return super()._embed(texts, batch_size)


def extractor_of(engine: ScriptedEngine) -> TripleExtractor:
    def request(passage: Passage) -> Request:
        return Request(prompt=triples_prompt(passage_text(passage.title, passage.text)))

    return TripleExtractor(engine, request, TripleCache(None, "model"))


async def test_an_addition_costs_what_it_adds(world: GoldWorld, tmp_path: Path) -> None:
    engine, encoder = ScriptedEngine(WorldModel(world)), CountingEncoder()
    index = PropositionIndex(encoder)
    await add_to_index(index, world.passages[:150], extractor_of(engine), tmp_path / "grown", 40)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert len(list((tmp_path / "grown").iterdir())) == 4
    embedded = encoder.texts
    assert (len(engine.requests), embedded) == (150, len(index.propositions))

    loaded = PropositionIndex.load(tmp_path / "grown", encoder, "model")
    assert contents(loaded) == contents(index) and encoder.texts == embedded
    new = loaded.missing(world.passages)
    assert [passage.id for passage in new] == [passage.id for passage in world.passages[150:]]
    await add_to_index(loaded, new, extractor_of(engine), tmp_path / "grown")
    assert len(engine.requests) == 200
    assert encoder.texts == len(loaded.propositions)
    assert before == {path: path.stat().st_mtime_ns for path in before}

    fresh = PropositionIndex(ENCODER)
    await add_to_index(fresh, world.passages, extractor_of(engine), tmp_path / "fresh")
    grown = open_index(tmp_path / "grown", ENCODER)
    assert contents(grown) == contents(fresh)
    passages = {passage.id: passage for passage in world.passages}
    queries = [record.question for record in world.questions]
    assert [PropositionSearch(grown, passages).find([q], 5) for q in queries] == [
        PropositionSearch(fresh, passages).find([q], 5) for q in queries
    ]


async def test_a_build_that_failed_goes_on_where_it_was(world: GoldWorld, tmp_path: Path) -> None:
    asked: list[Request] = []

    def fails_at_70(request: Request) -> str:
        asked.append(request)
        if len(asked) == 70:
            raise EngineError("out of memory")
        return WorldModel(world)(request)

    extractor = extractor_of(ScriptedEngine(fails_at_70))
    with pytest.raises(EngineError):
        await add_to_index(PropositionIndex(ENCODER), world.passages, extractor, tmp_path, 30)
    index = PropositionIndex.load(tmp_path, ENCODER)
    assert list(index.documents) == [passage.id for passage in world.passages[:60]]
    await add_to_index(index, index.missing(world.passages), extractor, tmp_path, 30)
    whole = open_index(tmp_path, ENCODER)
    assert contents(whole) == contents(index_of(*world_documents(world)))
    # Of the part that was lost, only what had no answer yet was asked again.
    assert len(asked) < len(world.passages) + 30


def saved(folder: Path, *documents: Document) -> Path:
    index = PropositionIndex(ENCODER)
    index.save_part(folder, index.add(documents), "model")
    return folder


def test_another_format_encoder_or_extractor_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "index", document(1, DIRECTOR))
    with pytest.raises(IndexMismatchError, match=r"encoder wide-hash.*asked for is hash \(32-"):
        open_index(folder, load_sentence_encoder("hash"))
    with pytest.raises(IndexMismatchError, match=r"extractor model .*asked for is other"):
        PropositionIndex.load(folder, ENCODER, "other")
    about = folder / "part-00000" / "about.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "format_version": 7}))
    with pytest.raises(IndexMismatchError, match=r"index of format 7.*reads format 1.*Build"):
        open_index(folder, ENCODER)


@pytest.mark.parametrize("name", ["about.json", "vectors.npy", "documents.jsonl"])
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_damaged_part_is_refused(name: str, damage: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "index", document(1, DIRECTOR), document(2, BORN))
    path = folder / "part-00000" / name
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises((PropositionIndexError, RecordError), match="Build the index again"):
        open_index(folder, ENCODER)


def test_what_holds_no_proposition_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", saved(tmp_path / "empty", document(1))):
        with pytest.raises(PropositionIndexError, match="holds no proposition"):
            open_index(folder, ENCODER)


def test_two_runs_at_once_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = saved(tmp_path / "other", document(2, BORN))
    save = np.save

    def save_late(*arguments: object, **options: object) -> None:
        save(*arguments, **options)
        shutil.copytree(other / "part-00000", tmp_path / "index" / "part-00000")

    monkeypatch.setattr(np, "save", save_late)
    with pytest.raises(PropositionIndexError, match="another run that adds"):
        saved(tmp_path / "index", document(1, DIRECTOR))
    assert list(open_index(tmp_path / "index", ENCODER).documents) == ["d2"]


def test_an_id_that_stands_for_two_texts_is_refused() -> None:
    index = PropositionIndex(ENCODER)
    first = Passage("p", "Dawn", "A film.")
    assert index.missing([first, first]) == [first]
    with pytest.raises(DuplicateDocumentError, match="'p' is there already"):
        index.missing([first, Passage("p", "Dawn", "A town.")])
