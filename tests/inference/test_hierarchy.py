"""The hierarchy: chunks, grounding, topics by kind, merging, the graph, and what is refused."""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.scripted_world.scripted_engine import ScriptedEngine, prompt_text
from inference.indexes.growing import DuplicateDocumentError
from inference.indexes.hierarchy.build import Chunking, extract_waiting, refresh, register
from inference.indexes.hierarchy.extraction import (
    Extracted,
    GroundedFact,
    PromptedChunkExtractor,
    chunk_text,
)
from inference.indexes.hierarchy.graph import component_sizes, linked_rows
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.hierarchy.kinds import KindTopics, described_kind
from inference.indexes.hierarchy.store import (
    FORMAT_VERSION,
    STORE_FILE,
    HierarchyError,
    HierarchyStore,
)
from inference.indexes.hierarchy.topics import has_topics_of_its_own, topics_of_subtopics
from inference.indexes.hierarchy.vectors import alike_pairs, merged_names
from inference.retrieval.passages import IndexMismatchError, Passage, best_rows
from models.facts.grounding import Grounding, split_sentences
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.topic_triplets import TopicTriplet, format_topic_triplets
from models.formats.topics import Topic
from models.formats.triples import Triple
from tests.inference.read_only import WAYS, read_only

ENCODER = load_sentence_encoder("hash")
FILM, PERSON, CITY = Topic("Cinema", "Film"), Topic("Biography", "Person"), Topic("Places", "City")
DAWN = Passage("d1", "Dawn", "Dawn is a film. Ana Lis directed it.")
ANA = Passage("d2", "Ana Lis", "Ana Lis was born in Brill.")
LAKE = Passage("d3", "Lake", "A lake.")
WRITTEN = {
    "Dawn": [TopicTriplet(Triple("Dawn", "director", "Ana Lis"), "Ana Lis directed it.", FILM,
                          PERSON)],
    "Ana Lis": [TopicTriplet(Triple("Ana Lis", "place of birth", "Brill"),
                             "Ana Lis was born in Brill.", PERSON, CITY)],
}  # fmt: skip


class Extractor:
    """Gives each document what a dictionary has for its title."""

    def __init__(self, written: dict[str, list[TopicTriplet]] = WRITTEN) -> None:
        self.written = written
        self.asked: list[str] = []

    async def extract(self, chunk: Passage) -> Extracted:
        self.asked.append(chunk.title)
        return Extracted(
            [
                GroundedFact(t.triple, t.sentence, t.subject or FILM, t.object or FILM)
                for t in self.written.get(chunk.title, [])
            ]
        )


def add(folder: Path, documents: Sequence[Passage], extractor: Extractor | None = None,
        threshold: float = 0.85, **options: bool) -> None:  # fmt: skip
    store = HierarchyStore(folder, create=True)
    register(store, documents, ScriptedEngine(lambda r: ""), Chunking(), **options)
    asyncio.run(extract_waiting(store, extractor or Extractor()))
    refresh(store, ENCODER, threshold)
    store.close()


def as_seen(folder: Path) -> tuple[object, ...]:
    """All that a question can see of a hierarchy."""
    index = HierarchyIndex.load(folder, ENCODER)
    scored = index.score("Where was the director of Dawn born?")
    evidence = index.evidence(scored, None, 50, 0.5)
    return (
        sorted(index.graph.topics), sorted(index.graph.subtopics), sorted(index.graph.entities),
        [index.graph.topics[t] for t in index.shortlist_topics(scored, 50)],
        sorted((e.sentence, e.chunk.id, e.triples, round(e.score, 5)) for e in evidence),
        index.graph.statistics(),
    )  # fmt: skip


# Chunks and sentences.


@given(st.text(st.sampled_from("ab A.!?。 \n\"')D"), max_size=80))
def test_no_word_is_lost_between_sentences(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


def test_sentences_end_where_they_end() -> None:
    text = 'D. Goel made it. "Yes!" He won. Mr. X left in 1990. 東京は首都。人口は多い。 It is.'
    assert split_sentences(text) == [
        "D. Goel made it.", '"Yes!"', "He won.", "Mr. X left in 1990.", "東京は首都。",
        "人口は多い。", "It is.",
    ]  # fmt: skip


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 12), st.integers(0, 10))
def test_chunks_cover_a_document_within_their_limit(
    lengths: list[int], most: int, overlap: int
) -> None:
    sentences = [
        " ".join([f"S{n}", *("w" for _ in range(k - 1))]) + "." for n, k in enumerate(lengths)
    ]
    chunks = chunk_text(" ".join(sentences), most, overlap, lambda text: len(text.split()))
    starts = [chunk.split(" ")[0].rstrip(".") for chunk in chunks]
    assert starts == sorted(set(starts), key=lambda s: int(s[1:]))
    for sentence in sentences:
        assert any(sentence in chunk for chunk in chunks)
    for chunk in chunks:
        assert len(chunk.split()) <= most or chunk in sentences


# Grounding.


def test_a_fact_that_was_asked_for_is_grounded_where_its_answer_stands() -> None:
    founded, led = "Halden Appliances was founded in 1987.", "Since 2016 Jonas Ek has led the firm."
    grounding = Grounding("About us", [founded, led])
    leads = Triple("Jonas Ek", "leads", "Halden Appliances")
    assert grounding.sentence_of(leads, asked="Who leads Halden Appliances?") == led
    # Nothing is asked for where the question names both.
    assert grounding.sentence_of(leads, asked="Does Jonas Ek lead Halden Appliances?") == founded


def test_a_fact_is_grounded_in_the_sentence_that_states_it() -> None:
    grounding = Grounding("Dawn", ["Dawn is a 1966 film.", "It was directed by Ana Lis in Brill."])
    director = Triple("Dawn", "director", "Ana Lis")
    assert grounding.sentence_of(director) == "It was directed by Ana Lis in Brill."
    assert grounding.sentence_of(director, "dawn is a 1966 film") == "Dawn is a 1966 film."
    copied = "It was directed by the great Ana Lis in Brill"
    assert grounding.sentence_of(director, copied) == "It was directed by Ana Lis in Brill."
    # A sentence that the chunk does not hold is not taken for evidence.
    assert grounding.sentence_of(director, "No such thing was ever said here.") == (
        "It was directed by Ana Lis in Brill."
    )
    assert grounding.sentence_of(Triple("Moon", "made of", "cheese"), "The moon is cheese.") is None
    assert grounding.sentence_of(Triple("Dawn", "country", "Denmark")) == "Dawn is a 1966 film."
    assert Grounding("Dawn", []).sentence_of(director) is None


# Topics without a large model.


@pytest.mark.parametrize(
    ("title", "text", "kind"),
    [
        ("Dawn", "Dawn is a 1966 film by Ana.", "film"),
        ("Dawn", "Dawn, a film, was directed by Ana.", "film"),
        ("Dawn", "The record label Dawn was founded in 1990.", "record label"),
        ("Ana Lis", "Ana Lis is a Danish film director who lives.", "film director"),
        ("Bo", "Bo ran.", ""),
        ("", "", ""),
    ],
)
def test_what_a_text_calls_its_title(title: str, text: str, kind: str) -> None:
    assert described_kind(title, text) == kind


def test_every_entity_gets_a_topic_by_kind() -> None:
    facts = [
        Triple("Dawn", "director", "Ana Lis"),
        Triple("Dawn", "publicationDate", "3 May 1966"),
        Triple("Dawn", "was renamed after", "Brill"),
        Triple("Zol", "population", "12,400"),
        Triple("Ana Lis", "instance of", "painter"),
    ]
    topics = KindTopics(ENCODER).topics("Dawn", DAWN.text, facts)
    assert set(topics) == {name for fact in facts for name in (fact.subject, fact.object)}
    assert topics["Dawn"] == Topic("Cinema", "film")
    assert topics["3 May 1966"] == Topic("Time", "date")
    assert topics["12,400"] == Topic("Measures", "number")
    assert (topics["Ana Lis"].subtopic, topics["Brill"].subtopic) == ("painter", "renamed")
    assert topics["Zol"] == Topic("Geography", "place")


def test_a_corpus_names_its_kinds_by_its_own_words_and_leaves_topics_open() -> None:
    facts = [
        Triple("Dawn", "director", "Ana Lis"),
        Triple("Dawn", "publicationDate", "3 May 1966"),
        Triple("Ana Lis", "instance of", "painter"),
        Triple("Zol", "population", "12,400"),
    ]
    topics = KindTopics(ENCODER, "corpus").topics("Dawn", DAWN.text, facts)
    assert {topic.topic for topic in topics.values()} == {""}
    # No list says that who directs is a person, or what has a population a place.
    assert {name: topic.subtopic for name, topic in topics.items()} == {
        "Dawn": "film", "Ana Lis": "painter", "3 May 1966": "date", "12,400": "number",
        "painter": "instance", "Zol": "population",
    }  # fmt: skip


def test_related_subtopics_are_one_topic_called_as_the_most_frequent() -> None:
    encoder = load_sentence_encoder("minilm")
    counts = {"film": 9, "movie": 2, "song": 4, "album": 3, "city": 5, "town": 1}
    for names in (list(counts), sorted(counts)):
        found = topics_of_subtopics(counts, names, encoder.encode(names))
        assert found == {"film": "film", "movie": "film", "song": "song", "album": "song",
                         "city": "city", "town": "city"}  # fmt: skip


OPEN = {
    title: [replace(t, subject=replace(t.subject, topic=""), object=replace(t.object, topic=""))
            for t in written if t.subject and t.object]
    for title, written in WRITTEN.items()
}  # fmt: skip


def test_a_growing_corpus_names_its_topics_as_one_built_at_once(tmp_path: Path) -> None:
    add(tmp_path / "one", [DAWN, ANA, LAKE], Extractor(OPEN))
    for document in (LAKE, ANA, DAWN):
        add(tmp_path / "two", [document], Extractor(OPEN))
    assert as_seen(tmp_path / "one") == as_seen(tmp_path / "two")
    index = HierarchyIndex.load(tmp_path / "one", ENCODER)
    assert set(index.graph.topics) <= {"film", "person", "city"} and "" not in index.graph.topics
    assert sorted(index.graph.subtopics) == ["City", "Film", "Person"]


@pytest.mark.parametrize(
    ("indexer", "own"),
    [
        ("prompted smollm2", True),
        ("t2t abc topic def", True),
        ("t2t abc topics of the corpus", True),
        ("t2t abc", False),
        ("", False),
    ],
)
def test_whose_topics_a_hierarchy_has(indexer: str, own: bool) -> None:
    assert has_topics_of_its_own(indexer) is own


# Merging.


def test_names_join_the_more_frequent_one_and_chains_do_not_form() -> None:
    pairs = [("a", "b", 0.9), ("b", "c", 0.9)]
    assert merged_names({"a": 3, "b": 2, "c": 1}, pairs) == {"a": "a", "b": "a", "c": "c"}
    assert merged_names({"a": 1, "b": 2, "c": 3}, pairs) == {"c": "c", "b": "c", "a": "a"}
    assert merged_names({"b": 1, "c": 5}, pairs) == {"c": "c", "b": "c"}
    # The nearest of several counts.
    assert merged_names({"a": 5, "b": 1, "c": 5}, [("a", "b", 0.86), ("b", "c", 0.95)])["b"] == "c"


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 3), min_size=1),
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef"), st.floats(0.85, 1)),
        max_size=9,
    ).map(lambda pairs: [p for p in pairs if p[0] != p[1]]),
    st.randoms(),
)
def test_merging_does_not_depend_on_order(
    counts: dict[str, int], pairs: list[tuple[str, str, float]], draw: object
) -> None:
    called = merged_names(counts, pairs)
    shuffled = list(counts)
    draw.shuffle(shuffled)
    assert merged_names({n: counts[n] for n in shuffled}, reversed(pairs)) == called
    assert all(called[name] == name for name in called.values())
    near = {frozenset(pair[:2]) for pair in pairs}
    assert all(frozenset(item) in near for item in called.items() if item[0] != item[1])


def test_pairs_are_found_in_blocks_and_numbers_keep_names_apart() -> None:
    names = [f"name {n} {'x' * n}" for n in range(300)] + ["same", "same "]
    vectors = np.zeros((len(names), 8), dtype=np.float32)
    vectors[:, 0] = 1.0
    assert alike_pairs(names[:300], vectors[:300], names[:300], vectors[:300], 0.9) == []
    assert alike_pairs(["same"], vectors[:1], names, vectors, 0.9) == [("same", "same ", 1.0)]


def test_topics_that_mean_the_same_are_one_and_keep_every_fact(tmp_path: Path) -> None:
    def named(topic: Topic, number: int) -> TopicTriplet:
        return TopicTriplet(Triple(f"E{number}", "is", f"F{number}"), f"S{number}.", topic, topic)

    topics = [Topic("Sports", "Sports club"), Topic("Sports", "Sport clubs"), Topic("sport", "x")]
    documents = [Passage(f"d{n}", f"T{n}", "") for n in range(3)]
    written = {f"T{n}": [named(topic, n)] for n, topic in enumerate(topics)}
    minilm = load_sentence_encoder("minilm")
    store = HierarchyStore(tmp_path, create=True)
    register(store, documents, ScriptedEngine(lambda r: ""), Chunking())
    asyncio.run(extract_waiting(store, Extractor(written)))
    refresh(store, minilm, 0.85)
    index = HierarchyIndex.load(tmp_path, minilm)
    assert index.graph.topics == ["Sports"]
    assert index.graph.subtopics == ["Sport clubs", "x"]
    assert len(index.graph.sentences_under([0])) == 2
    refresh(store, minilm, 1.5)
    store.close()
    assert len(HierarchyIndex.load(tmp_path, minilm).graph.topics) == 2


# The graph and the store.


def test_the_three_levels_are_linked(tmp_path: Path) -> None:
    add(tmp_path, [DAWN, ANA, LAKE])
    index = HierarchyIndex.load(tmp_path, ENCODER)
    graph = index.graph
    assert graph.entities == ["Dawn", "Ana Lis", "Brill"]
    assert graph.statistics() == {
        "nodes": 9, "topic nodes": 3, "subtopic nodes": 3, "entity nodes": 3,
        "edges": 3 + 3 + 2, "topic-subtopic edges": 3, "subtopic-entity edges": 3,
        "entity-entity edges": 2, "components": 1, "largest component's share": 1.0,
        "components without topics": 1, "largest share without topics": 1.0,
    }  # fmt: skip
    person = graph.subtopics.index("Person")
    # All edges of the entities under a subtopic, one hop away.
    assert len(graph.sentences_under([person])) == 2
    assert len(graph.sentences_under([graph.subtopics.index("City")])) == 1
    assert len(graph.sentences_under([])) == 0


def test_adding_and_deleting_is_the_same_as_building_anew(tmp_path: Path) -> None:
    add(tmp_path / "one", [DAWN, ANA, LAKE])
    extractor = Extractor()
    add(tmp_path / "two", [LAKE], extractor)
    add(tmp_path / "two", [ANA], extractor)
    add(tmp_path / "two", [DAWN, ANA], extractor)
    assert sorted(extractor.asked) == ["Ana Lis", "Dawn", "Lake"]
    assert as_seen(tmp_path / "one") == as_seen(tmp_path / "two")
    store = HierarchyStore(tmp_path / "two")
    assert store.delete_documents(["d1", "unknown"]) == 1
    refresh(store, ENCODER, 0.85)
    assert store.vectors.labels("topic", 32)[0] == ["biography", "places"]
    store.close()
    add(tmp_path / "three", [ANA, LAKE])
    assert as_seen(tmp_path / "two") == as_seen(tmp_path / "three")


@settings(max_examples=8)
@given(st.lists(st.sampled_from(["0123", *"00112233"]), max_size=8))
def test_any_order_of_changes_ends_in_the_same_graph(changes: list[str]) -> None:
    """Digits add documents, a second time deletes them."""
    import tempfile

    documents = [DAWN, ANA, LAKE, Passage("d4", "Brill", "Brill is a town.")]
    there: dict[int, Passage] = {}
    with tempfile.TemporaryDirectory() as folder:
        changed, anew = Path(folder) / "changed", Path(folder) / "anew"
        add(changed, [])
        for place in (int(digit) for change in changes for digit in change):
            if place in there:
                store = HierarchyStore(changed)
                store.delete_documents([there.pop(place).id])
                refresh(store, ENCODER, 0.85)
                store.close()
            else:
                there[place] = documents[place]
                add(changed, [documents[place]])
        if not {0, 1} & set(there):
            with pytest.raises(HierarchyError, match="no fact in"):
                HierarchyIndex.load(changed, ENCODER)
            return
        add(anew, list(there.values()))
        assert as_seen(changed) == as_seen(anew)


def test_a_changed_document_is_refused_or_replaced(tmp_path: Path) -> None:
    add(tmp_path, [DAWN, ANA])
    changed = Passage("d1", "Lake", "A lake.")
    with pytest.raises(DuplicateDocumentError, match=r"d1.*--replace"):
        add(tmp_path, [changed])
    add(tmp_path, [changed], replace=True)
    assert HierarchyIndex.load(tmp_path, ENCODER).graph.entities == ["Ana Lis", "Brill"]


def test_what_was_extracted_survives_an_error(tmp_path: Path) -> None:
    class Fails(Extractor):
        async def extract(self, chunk: Passage) -> Extracted:
            if chunk.title == "Ana Lis":
                raise RuntimeError("out of memory")
            return await super().extract(chunk)

    with pytest.raises(RuntimeError):
        add(tmp_path, [DAWN, ANA], Fails())
    with pytest.raises(HierarchyError, match="1 of 2 chunks are not extracted"):
        HierarchyIndex.load(tmp_path, ENCODER)
    extractor = Extractor()
    add(tmp_path, [], extractor)
    assert extractor.asked == ["Ana Lis"]
    assert len(HierarchyIndex.load(tmp_path, ENCODER).sentences) == 2


def test_a_chunk_without_a_fact_is_counted(tmp_path: Path) -> None:
    add(tmp_path, [DAWN, LAKE])
    store = HierarchyStore(tmp_path)
    counts = store.counts()
    store.close()
    assert (counts["documents"], counts["chunks without a fact"], counts["facts"]) == (2, 1, 1)


def test_one_giant_component_is_searched_within_bounds(tmp_path: Path) -> None:
    """Everything under one topic, one subtopic and one hub entity."""
    every = Topic("Thing", "Thing")
    facts = [TopicTriplet(Triple(f"E{n}", "is part of", "Hub"), f"E{n} is part of it.", every,
                          every) for n in range(3000)]  # fmt: skip
    add(tmp_path, [Passage("d", "All", "")], Extractor({"All": facts}))
    index = HierarchyIndex.load(tmp_path, ENCODER)
    assert index.graph.statistics()["components"] == 1
    scored = index.score("All: E7 is part of it.")
    assert index.shortlist_topics(scored, 10) == [0]
    evidence = index.evidence(scored, [0], 30, 0.5)
    assert len(evidence) == 30
    assert "E7 is part of it." in {item.sentence for item in evidence}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_topic_is_found_among_a_hundred_thousand(tmp_path: Path) -> None:
    """By its name, and by a sentence where its name says nothing."""
    from inference.indexes.hierarchy.graph import TopicGraph
    from inference.indexes.hierarchy.store import StoredFact

    many = 100_000
    facts = [
        StoredFact(n, f"E{n}", "is", "Hub", f"Topic {n}", "Thing", f"Topic {n}", "Thing")
        for n in range(many)
    ]
    keys = {f"topic {n}": f"topic {n}" for n in range(many)}
    graph = TopicGraph(
        facts, {n: n for n in range(many)}, {"topic": keys, "subtopic": {"thing": "thing"}}
    )
    draw = np.random.default_rng(0)
    names, texts = (draw.normal(size=(many, 32)).astype(np.float32) for _ in range(2))
    [question] = ENCODER.encode(["Which one is it?"])
    names[40_000], texts[70_000] = 20 * question, 20 * question
    passage = Passage("d", "", "")
    index = HierarchyIndex(
        graph, ENCODER, [("", passage)] * many, (texts, names, np.ones((1, 32), np.float32))
    )
    short = index.shortlist_topics(index.score("Which one is it?"), 10)
    assert {40_000, 70_000} <= set(short) and len(short) == 10


def test_components_are_counted_as_networkx_would() -> None:
    edges = [(np.array([0, 1, 4]), np.array([1, 2, 5])), (np.array([6]), np.array([6]))]
    assert component_sizes(8, edges) == [3, 2, 1, 1, 1]
    assert component_sizes(0, []) == []


# Ranking.


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.integers(1, 12))
def test_the_best_rows_are_those_of_a_full_sort(scores: list[float], most: int) -> None:
    array = np.array(scores, dtype=np.float32)
    assert best_rows(array, most) == list(np.argsort(-array, kind="stable")[:most])
    rows = np.arange(0, len(scores), 2)
    assert (
        best_rows(array, most, rows)
        == [r for r in best_rows(array, len(scores)) if r % 2 == 0][:most]
    )


def test_a_linked_sentence_is_pulled_towards_the_better_one() -> None:
    scores = np.array([0.9, 0.1, 0.5, 0.4], dtype=np.float32)
    entities = {0: {0, 1}, 1: {1, 2}, 2: {3}, 3: {2}}
    rows_of = {e: np.array([r for r in entities if e in entities[r]]) for e in range(4)}

    def ranked(weight: float, most: int = 4, rows: list[int] | None = None) -> list[int]:
        allowed = None if rows is None else np.array(rows)
        found = linked_rows(scores, most, weight, allowed, entities.__getitem__,
                            rows_of.__getitem__)  # fmt: skip
        return [row for row, _ in found]

    assert ranked(0.0) == [0, 2, 3, 1]
    # 0.1 is pulled to 0.1 + 0.6 * 0.8 = 0.58, and 0.4 from there to 0.4 + 0.6 * 0.18 = 0.508.
    assert ranked(0.6) == [0, 1, 3, 2]
    assert ranked(0.6, most=2) == [0, 1]
    assert ranked(0.6, rows=[0, 2, 3]) == [0, 2, 3]


# What is refused.


def test_another_format_encoder_or_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HierarchyError, match="holds no hierarchy"):
        HierarchyIndex.load(tmp_path / "nowhere", ENCODER)
    assert not (tmp_path / "nowhere").exists()
    add(tmp_path / "good", [DAWN])
    with pytest.raises(IndexMismatchError, match=r"hash[\s\S]*minilm"):
        HierarchyIndex.load(tmp_path / "good", load_sentence_encoder("minilm"))
    connection = sqlite3.connect(tmp_path / "good" / STORE_FILE)
    connection.execute(f"PRAGMA user_version={FORMAT_VERSION + 1}")
    connection.close()
    expected = f"written in format {FORMAT_VERSION + 1}, and this release reads format"
    with pytest.raises(HierarchyError, match=expected):
        HierarchyIndex.load(tmp_path / "good", ENCODER)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / STORE_FILE).write_bytes(b"not a database, but long enough to be one" * 99)
    with pytest.raises(HierarchyError, match="cannot be read as a hierarchy"):
        HierarchyIndex.load(tmp_path / "bad", ENCODER)
    other = sqlite3.connect(tmp_path / "good" / "other.sqlite")
    other.execute("CREATE TABLE t (x)")
    other.close()
    (tmp_path / "good" / "other.sqlite").rename(tmp_path / "bad" / STORE_FILE)
    with pytest.raises(HierarchyError, match="written in format 0"):
        HierarchyIndex.load(tmp_path / "bad", ENCODER)


@pytest.mark.parametrize("way", WAYS)
def test_one_that_may_only_be_read_answers_and_is_not_changed(way: str, tmp_path: Path) -> None:
    add(tmp_path, [DAWN, ANA])
    seen, before = as_seen(tmp_path), (tmp_path / STORE_FILE).read_bytes()
    with read_only(tmp_path, way):
        assert as_seen(tmp_path) == seen
        expected = rf"{STORE_FILE}: may only be read. Copy its folder to where it can be changed"
        with pytest.raises(HierarchyError, match=expected):
            add(tmp_path, [LAKE])
    assert [path.name for path in tmp_path.iterdir()] == [STORE_FILE]
    assert (tmp_path / STORE_FILE).read_bytes() == before
    add(tmp_path, [LAKE])


def test_none_where_none_can_be_made_is_told_without_a_word_of_removing(tmp_path: Path) -> None:
    with read_only(tmp_path), pytest.raises(HierarchyError, match="cannot be opened") as caught:
        HierarchyStore(tmp_path, create=True)
    assert "remove" not in str(caught.value)


# Extraction by prompt.


async def test_a_prompted_model_writes_all_in_one_call_and_what_it_invents_is_dropped() -> None:
    moon = TopicTriplet(Triple("Moon", "made of", "cheese"), "The moon is cheese.", CITY, CITY)
    text = format_topic_triplets([*WRITTEN["Dawn"], moon]).replace("Cinema", "C" * 150)
    engine = ScriptedEngine(lambda request: f"{text} and that's it")
    extractor = PromptedChunkExtractor(engine, KindTopics(ENCODER), constrain=True)
    extracted = await extractor.extract(DAWN)
    [fact] = extracted.facts
    assert (fact.triple, fact.sentence) == (WRITTEN["Dawn"][0].triple, "Ana Lis directed it.")
    # Its topic was no topic; the kind of thing counts.
    assert (fact.subject, fact.object) == (Topic("Cinema", "film"), PERSON)
    assert extracted.dropped["about things that the chunk does not name"] == 1
    [request] = engine.requests
    assert "Document: Dawn: Dawn is a film. Ana Lis directed it." in prompt_text(request)
    assert request.constraint is not None and request.constraint.json_schema is not None
