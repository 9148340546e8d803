"""The texts of the perfect model for TH-RAG: facts with sentences and topics, and choices."""

import json
from collections.abc import Iterable
from pathlib import Path

from benchmarks.scripted_world.gold_world import GoldWorld
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from benchmarks.scripted_world.world_model import WorldModel, value_of
from data_gen.world.passages import write_passages
from data_gen.world.population import build_population
from inference.indexes.hierarchy.build import Chunking, extract_waiting, refresh, register
from inference.indexes.hierarchy.extraction import ChunkExtractor
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.hierarchy.store import HierarchyStore
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import SentenceEncoder
from models.formats.prompts import passage_text
from models.formats.topic_triplets import TopicTriplet, format_topic_triplets
from models.formats.topics import ChoiceLevel, Topic, format_choice

VALUE = Topic("Measures", "Value")


class TopicWriters:
    """The writers that TH-RAG's requests need beside those of `WorldModel`."""

    def __init__(self, world: GoldWorld, folder: Path) -> None:
        """folder: the world's, to know in which sentence each fact is told."""
        self.world = world
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
        population = build_population(card["entities"], card["seed"])
        self.sentences = {
            passage_text(p.entity.name, p.text): [p.sentences[number] for _, number in p.told]
            for p in write_passages(population, card["seed"])
        }

    def attach(self, model: WorldModel) -> WorldModel:
        """Teach the model TH-RAG's requests."""
        model.by_last_line |= {
            "Triplets with topics:": self.topic_triplets,
            "Chosen topics:": self.choose_topics,
            "Chosen subtopics:": self.choose_subtopics,
        }
        return model

    def topic_triplets(self, prompt: str) -> str:
        """Return the gold triples of the document with their sentences and kinds."""
        text = value_of(prompt, "Document")
        facts = self.world.facts.get(text, [])
        return format_topic_triplets(
            TopicTriplet(fact, sentence, self.topic(fact.subject), self.topic(fact.object))
            for fact, sentence in zip(facts, self.sentences.get(text, []), strict=True)
        )

    def choose_topics(self, prompt: str) -> str:
        """Return the topics of all that the question's facts are about."""
        return self._choice(prompt, "topics", (topic.topic for topic in self._needed(prompt)))

    def choose_subtopics(self, prompt: str) -> str:
        """Return the same for the subtopics; those of other topics are not on the list."""
        return self._choice(prompt, "subtopics", (t.subtopic for t in self._needed(prompt)))

    def topic(self, name: str) -> Topic:
        """Return an entity's kind; dates and numbers are values."""
        return self.world.topics.get(name, VALUE)

    def _needed(self, prompt: str) -> list[Topic]:
        record = self.world.asked.get(value_of(prompt, "Question"))
        facts = record.evidences if record else []
        return [self.topic(name) for fact in facts for name in (fact.subject, fact.object)]

    def _choice(self, prompt: str, level: ChoiceLevel, wanted: Iterable[str]) -> str:
        [line] = [li for li in prompt.splitlines() if li.startswith(f"Allowed {level}")]
        allowed = json.loads(line[line.index(": [") + 2 :])
        chosen = [name for name in dict.fromkeys(wanted) if name in allowed]
        return format_choice(level, chosen or allowed[:1])


async def build_index(
    folder: Path,
    documents: list[Passage],
    extractor: ChunkExtractor,
    encoder: SentenceEncoder,
    threshold: float = 0.85,
) -> HierarchyIndex:
    """Build or add to a hierarchy and load it."""
    store = HierarchyStore(folder, create=True)
    register(store, documents, ScriptedEngine(lambda request: ""), Chunking())
    await extract_waiting(store, extractor)
    refresh(store, encoder, threshold)
    store.close()
    return HierarchyIndex.load(folder, encoder)
