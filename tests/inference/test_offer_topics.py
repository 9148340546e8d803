"""offer_topics.py: which topics are right is told exactly, and lists are those of the loop."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

import inference.offer_topics
from benchmarks.scripted_world.gold_world import make_world
from benchmarks.scripted_world.loops import TopicWriters, build_index
from benchmarks.scripted_world.scripted_engine import ScriptedEngine, prompt_text
from benchmarks.scripted_world.world_model import WorldModel
from inference.engines.contract import Request
from inference.indexes.hierarchy.extraction import Extracted, GroundedFact, PromptedChunkExtractor
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.hierarchy.kinds import KindTopics
from inference.indexes.hierarchy.offers import GoldTopics, Words, supporting_sentences
from inference.indexes.hierarchy.store import STORE_FILE
from inference.loops.model import ModelSteps
from inference.loops.th_rag import ThRagLoop, ThRagSettings
from inference.offer_topics import ChoiceMarker
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.records import (
    DecompositionStep,
    QuestionRecord,
    read_records,
    write_records,
)
from models.formats.topics import OfferedChoice, Topic
from models.formats.triples import Triple
from tests.run_main import Run, json_runner

ENCODER = load_sentence_encoder("hash")
FILM, PERSON, CITY = Topic("Cinema", "Film"), Topic("Biography", "Person"), Topic("Places", "City")
DAWN = [
    "Dawn is a 1966 film by Ana Lis.",
    "It was made in Brill.",
    "It won a prize.",
]
ANA = ["Ana Lis (born 3 May 1930) was a painter.", "She was born in Brill."]
FACTS = {
    "Dawn": [
        (("Dawn", "director", "Ana Lis"), 0, FILM, PERSON),
        (("Dawn", "filming location", "Brill"), 1, FILM, CITY),
    ],
    "Ana Lis": [
        (("Ana Lis", "occupation", "painter"), 0, Topic("Art", "Painter"), Topic("Work", "Job")),
        (("Ana Lis", "place of birth", "Brill"), 1, PERSON, CITY),
    ],
    # Fillers, so that lists are longer than what is always taken.
    **{
        f"Thing {n}": [((f"Thing {n}", "like", f"Other {n}"), 0,
                        Topic(f"Field {n}", f"Kind {n}"), Topic("Cinema", f"Genre {n}"))]
        for n in range(20)
    },
}  # fmt: skip
DOCUMENTS = [
    Passage("d1", "Dawn", " ".join(DAWN)),
    Passage("d2", "Ana Lis", " ".join(ANA)),
    *(Passage(f"x{n}", f"Thing {n}", f"Thing {n} is like Other {n}.") for n in range(20)),
]
SENTENCES = {"Dawn": DAWN, "Ana Lis": ANA}
QUESTION = QuestionRecord(
    "q1",
    "Where was the director of Dawn born?",
    "Brill",
    context=[("Dawn", DAWN), ("Ana Lis", ANA), ("Lake", ["A lake."])],
    supporting_facts=[("Dawn", 0), ("Ana Lis", 1)],
)


class Extractor:
    """The facts above, under the topics given there."""

    async def extract(self, chunk: Passage) -> Extracted:
        texts = SENTENCES.get(chunk.title, [chunk.text])
        return Extracted(
            [
                GroundedFact(Triple(*fact), texts[place], subject, object_)
                for fact, place, subject, object_ in FACTS[chunk.title]
            ]
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hierarchy")
    # Above 1: no two names are merged.
    asyncio.run(build_index(made, DOCUMENTS, Extractor(), ENCODER, 2.0))
    return made


@pytest.fixture(scope="module")
def index(folder: Path) -> HierarchyIndex:
    return HierarchyIndex.load(folder, ENCODER)


def names(numbers: list[int], of: list[str]) -> list[str]:
    return [of[number] for number in numbers]


def test_right_are_the_topics_of_entities_with_an_edge_to_a_supporting_sentence(
    index: HierarchyIndex,
) -> None:
    gold, graph = GoldTopics(index), index.graph
    rows = gold.sentences(QUESTION)
    assert [index.sentences[row][0] for row in rows] == [DAWN[0], ANA[1]]
    # Ana Lis is in both sentences; as a painter too, but neither sentence says so. Work is that of
    # "painter", which is in none.
    assert names(gold.topics(rows), graph.topics) == ["Biography", "Art", "Cinema", "Places"]
    biography, places = map(graph.topics.index, ("Biography", "Places"))
    assert names(gold.subtopics(rows, biography), graph.subtopics) == ["Person"]
    assert names(gold.subtopics(rows, places), graph.subtopics) == ["City"]
    assert gold.subtopics(rows, graph.topics.index("Work")) == []
    assert gold.sentences(QuestionRecord("q", "?", "", context=[("Dawn", ["A dog."])],
                                         supporting_facts=[("Dawn", 0)])) == []  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (DAWN[0], [0]),
        ("Dawn( is a 1966 film ) by ANA lis", [0]),
        (" ".join(DAWN), [0, 1]),
        ("made in Brill", [1]),
        ("Dawn is one 1966 film by Ana Lis.", [0]),
        ("Dawn is a film.", []),
        ("It won a prize.", []),
        ("...", []),
    ],
)
def test_a_supporting_sentence_is_found_however_it_was_cut(
    text: str, found: list[int], index: HierarchyIndex
) -> None:
    record = QuestionRecord("q", "?", "", context=[("DAWN ", [text])],
                            supporting_facts=[("DAWN ", 0)])  # fmt: skip
    rows = GoldTopics(index).sentences(record)
    assert [index.sentences[row][0] for row in rows] == [DAWN[n] for n in found]


def test_words_are_compared_whole() -> None:
    assert not Words.of("He won.").holds_or_is_held(Words.of("The wonder"))
    assert not Words.of("").holds_or_is_held(Words.of("a"))
    assert Words.of("a b c").share(Words.of("a b d e")) == 0.5
    assert Words.of("").share(Words.of("")) == 0.0


def test_of_paragraphs_with_one_title_those_count_that_the_steps_point_to() -> None:
    record = QuestionRecord(
        "q", "?", "", context=[("Dawn", ["a"]), ("Dawn", ["b"]), ("Eve", ["c"])],
        supporting_facts=[("Dawn", 0), ("Eve", 0), ("Eve", 7), ("No", 0), ("Dawn", -1)],
        question_decomposition=[DecompositionStep("?", "", 1), DecompositionStep("?", "", 2)],
    )  # fmt: skip
    assert supporting_sentences(record) == [("Dawn", "b"), ("Eve", "c")]


def test_the_lists_are_those_that_the_loop_shows(index: HierarchyIndex) -> None:
    """A model that writes the labels gets, level by level, the prompts of the choices."""
    marker = ChoiceMarker(index)
    choices = marker.choices(QUESTION)
    # 25 topics; Cinema has 21 subtopics, the other right topics no more than are always taken.
    assert [(c.id, c.level, c.topic, len(c.names)) for c in choices] == [
        ("q1/0", "topics", "", 25), ("q1/1", "subtopics", "Cinema", 21),
    ]  # fmt: skip
    assert choices[0].chosen == ["Biography", "Art", "Cinema", "Places"]
    assert choices[1].chosen == ["Film"]
    assert marker.counts["lists of subtopics left out: taken whole"] == 3
    labels = {choice.prompt.strip(): choice.label for choice in choices}

    def shown(request: Request) -> str:
        """What follows the instruction."""
        return prompt_text(request).partition("\n\n")[2].strip()

    engine = ScriptedEngine(lambda request: labels.get(shown(request), "yes"))
    trace = asyncio.run(ThRagLoop(ModelSteps(engine), index, ThRagSettings()).answer(QUESTION))
    assert list(labels) == [shown(request) for request in engine.requests[:-1]]
    chosen = [part.split(": ")[0] for part in trace.steps[0].decision.split("; ")]
    assert chosen[:4] == choices[0].chosen and len(chosen) == 5


def test_what_the_shortlist_does_not_hold_is_counted(index: HierarchyIndex) -> None:
    marker = ChoiceMarker(index, shortlist=6)
    [topics, *_] = marker.choices(QUESTION)
    assert len(topics.names) == 6 and set(topics.chosen) <= set(topics.names)
    beyond = marker.counts["right topics beyond the shortlist"]
    assert marker.counts["right topics"] == len(topics.chosen) + beyond


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return json_runner(
        monkeypatch, capsys, tmp_path / "cache", "--encoder", "hash", "--out", tmp_path / "c.jsonl"
    )


def test_the_command_writes_the_choices_and_counts_what_is_left_out(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    unknown = QuestionRecord("q2", "Who?", "", context=[("Lake", ["A lake."])],
                             supporting_facts=[("Lake", 0)])  # fmt: skip
    write_records(tmp_path / "q.jsonl", [QUESTION, unknown])
    offer = (inference.offer_topics.main, "--hierarchy", folder, "--dataset", tmp_path / "q.jsonl")
    counts = run(*offer)
    written = list(read_records(tmp_path / "c.jsonl", OfferedChoice))
    assert [choice.id for choice in written] == ["q1/0", "q1/1"]
    assert (counts["questions"], counts["questions with a choice"]) == (2, 1)
    assert counts["questions left out: no supporting sentence in the hierarchy"] == 1
    assert (counts["choices of topics"], counts["choices of subtopics"]) == (1, 1)
    assert (counts["names of a list"], counts["right ones of it"]) == (23.0, 2.5)
    assert run(*offer, "--limit", 1)["questions"] == 1
    assert "q1/1" in (tmp_path / "c.jsonl").read_text()


def test_what_cannot_be_offered_is_refused_in_one_line(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "q.jsonl"

    def offer(hierarchy: Path = folder) -> None:
        run(inference.offer_topics.main, "--hierarchy", hierarchy, "--dataset", data)

    data.write_text("")
    with pytest.raises(SystemExit, match="holds no question"):
        offer()
    data.write_text('{"id": "a", "question": 3.5, "answer": "x"}\n{"id": "b", "question": []}')
    with pytest.raises(SystemExit, match=r"q\.jsonl:2: field 'answer': missing"):
        offer()
    write_records(data, [QuestionRecord("q", "Who?", "", supporting_facts=[("Dawn", 0)])])
    with pytest.raises(SystemExit, match="'supporting_facts': none of 1 questions has one whose"):
        offer()
    other = QuestionRecord("q", "?", "", context=[("Lake", ["A."])], supporting_facts=[("Lake", 0)])
    write_records(data, [other])
    with pytest.raises(SystemExit, match=r"no choice to offer .*no supporting sentence"):
        offer()
    write_records(data, [QUESTION])
    with pytest.raises(SystemExit, match="holds no hierarchy"):
        offer(tmp_path / "none")
    later = tmp_path / "later"
    later.mkdir()
    connection = sqlite3.connect(later / STORE_FILE)
    connection.executescript("PRAGMA user_version=9;")
    connection.close()
    with pytest.raises(SystemExit, match="written in format 9, and this release reads format 1"):
        offer(later)
    assert not (tmp_path / "c.jsonl").exists()


def test_a_worlds_right_topics_lead_to_its_facts(tmp_path: Path) -> None:
    """Every supporting sentence that is there is under the subtopics that are marked right."""
    world = make_world(tmp_path / "world", questions=40)
    engine = ScriptedEngine(TopicWriters(world, tmp_path / "world").attach(WorldModel(world)))
    extractor = PromptedChunkExtractor(engine, KindTopics(ENCODER))
    built = asyncio.run(build_index(tmp_path / "h", world.passages, extractor, ENCODER))
    gold = GoldTopics(built)
    found = {record.id: gold.sentences(record) for record in world.questions}
    assert sum(map(bool, found.values())) > 25
    for rows in found.values():
        topics = gold.topics(rows)
        under = {s for topic in topics for s in gold.subtopics(rows, topic)}
        assert set(rows) <= set(built.graph.sentences_under(under).tolist())
    made = [choice for record in world.questions for choice in ChoiceMarker(built).choices(record)]
    # Nine topics, so topics are asked for; no topic has more than ten subtopics.
    assert len(made) > 25 and {choice.level for choice in made} == {"topics"}
