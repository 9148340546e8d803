"""The five systems' loops over a world whose indexes one scripted model wrote."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.scripted_world.gold_world import GoldWorld
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from benchmarks.scripted_world.world_model import SubQuestionWriters, WorldModel, value_of
from data_gen.world.passages import write_passages
from data_gen.world.population import build_population
from inference.engines.contract import Request
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.indexes.hierarchy.build import Chunking, extract_waiting, refresh, register
from inference.indexes.hierarchy.extraction import ChunkExtractor, PromptedChunkExtractor
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.hierarchy.kinds import KindTopics
from inference.indexes.hierarchy.store import HierarchyStore
from inference.indexes.knowledge_base.store import KnowledgeBase, Output, extend
from inference.indexes.propositions.index import PropositionIndex, PropositionSearch
from inference.indexes.propositions.parts import Document
from inference.loops.graph_evidence import EvidenceGatherer, EvidenceSettings
from inference.loops.model import GraphReader, ModelSteps, chat_input, few_shot_input
from inference.loops.ras import RasLoop, RasSettings
from inference.loops.t2rag import T2RagLoop, T2RagSettings
from inference.loops.t2rag_steps import CLUE_PROMPTS, Decomposer, PromptedResolver
from inference.loops.th_rag import ThRagLoop, ThRagSettings
from inference.loops.trace import Loop
from inference.loops.tri_rag import TriRagLoop, TriRagSettings
from inference.loops.trig_nav import TrigNavLoop, TrigNavSettings
from inference.opening.components import prompted_triples_request
from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import SentenceEncoder
from models.formats.paper_prompts import Prompts
from models.formats.passages import passage_key
from models.formats.prompts import conditions_prompt, passage_text
from models.formats.topic_triplets import TopicTriplet, format_topic_triplets
from models.formats.topics import ChoiceLevel, Topic, format_choice

VALUE = Topic("Measures", "Value")
LOOPS = ("ras", "tri_rag", "t2rag", "th_rag", "trig_nav")
TITLE_WEIGHT = 5
"""As the loops' commands count a title."""


@dataclass(frozen=True)
class Settings:
    """The settings of each loop and of what all share.

    By default those of its paper, but for what a question of four hops needs and for our prompts.

    RAS finds five passages by BM25, as in its paper for 2WikiMultihopQA. T²RAG has four rounds
    (paper: three). Tri-RAG asks for the next condition up to five times (Algorithm 2 retrieves
    once). TH-RAG's model chooses as few as it wants of a world's nine topics.
    """

    ras: RasSettings = field(
        default_factory=lambda: RasSettings(top_k=5, first_subquery="question")
    )
    tri_rag: TriRagSettings = field(default_factory=lambda: TriRagSettings(max_rounds=5))
    t2rag: T2RagSettings = field(default_factory=lambda: T2RagSettings(max_rounds=4))
    th_rag: ThRagSettings = field(
        default_factory=lambda: ThRagSettings(topics=(1, 6), subtopics=(1, 3))
    )
    trig_nav: TrigNavSettings = field(default_factory=TrigNavSettings)
    trig_nav_evidence: EvidenceSettings = field(default_factory=EvidenceSettings)
    few_shot: bool = False
    title_weight: int = TITLE_WEIGHT

    @classmethod
    def of_papers(cls) -> Settings:
        """Return what `--preset paper` sets: no round more, and the papers' own prompts."""
        return cls(
            RasSettings(top_k=5, max_triples=0, first_subquery="question", stop_at_repeat=False),
            TriRagSettings(evidence="full"),
            T2RagSettings(prompts=CLUE_PROMPTS["paper"]),
            ThRagSettings(link_weight=0.0, name_weight=0.0, evidence="full", prompts="paper"),
            TrigNavSettings(judge=True, own_graphs=True, shows_known=False),
            EvidenceSettings(max_facts=0),
            few_shot=True,
            title_weight=1,
        )


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


class WorldLoops:
    """Indexes of a world and the loops over them; every model call goes to one scripted model."""

    def __init__(
        self, world: GoldWorld, topics: TopicWriters, model: WorldModel, encoder: SentenceEncoder
    ) -> None:
        """topics: of the world's folder, see `TopicWriters`."""
        self.world = world
        self.encoder = encoder
        SubQuestionWriters(topics.attach(model))
        self.engine = ScriptedEngine(model)
        self.cache = TripleCache(None, "scripted")
        self.extractor = TripleExtractor(self.engine, prompted_triples_request, self.cache)

    async def triples(self) -> list[Document]:
        """Return every passage's triples; they are in the cache from then on."""
        found = await self.extractor.extract(self.world.passages)
        both = zip(self.world.passages, found, strict=True)
        return [Document(p.id, passage_key(p), tuple(triples)) for p, triples in both]

    async def open(self, name: str, settings: Settings, folder: Path) -> Loop:
        """Return a loop with what it searches, built by the model.

        folder: for a hierarchy, one that does not exist yet. Raises KnowledgeBaseError where the
        model wrote nothing that can be used.
        """
        if name == "tri_rag":
            return await self.tri_rag(settings.tri_rag)
        if name == "th_rag":
            index = await self.hierarchy(folder, settings.th_rag.prompts)
            return self.th_rag(index, settings.th_rag)
        documents = await self.triples()
        if name == "t2rag":
            return await self.t2rag(documents, settings.t2rag)
        retriever = Bm25Retriever(self.world.passages, settings.title_weight)
        if name == "ras":
            reader = GraphReader(self.engine, few_shot_input if settings.few_shot else chat_input)
            return RasLoop(reader, retriever, self.extractor, settings.ras)
        gatherer = EvidenceGatherer(
            retriever, self.extractor, self.encoder, settings.trig_nav_evidence
        )
        return TrigNavLoop(ModelSteps(self.engine), gatherer, settings.trig_nav)

    async def tri_rag(self, settings: TriRagSettings) -> TriRagLoop:
        """Over a knowledge base; the planner asks hop by hop where there are rounds."""
        base = await self.knowledge_base()
        # The paper's generator reads the block; a reader of facts plans as well.
        is_read = settings.evidence == "facts"
        reader = GraphReader(self.engine, chat_input) if is_read else None
        by_id = {passage.id: passage for passage in self.world.passages}
        return TriRagLoop(self.engine, base, settings, reader, by_id.__getitem__)

    async def knowledge_base(self) -> KnowledgeBase:
        """Return Tri-RAG's, written by the model."""
        outputs = [await self._conditions(passage) for passage in self.world.passages]
        return await asyncio.to_thread(extend, None, outputs, self.encoder)

    async def _conditions(self, passage: Passage) -> Output:
        prompt = conditions_prompt(passage_text(passage.title, passage.text), few_shot=True)
        [done] = await self.engine.generate([Request(prompt=prompt)])
        return Output(passage.id, passage.title, passage.text, done.text, was_cut=False)

    async def t2rag(self, documents: list[Document], settings: T2RagSettings) -> T2RagLoop:
        """Over the propositions of these documents."""
        index = PropositionIndex(self.encoder)
        await asyncio.to_thread(index.add, documents)
        by_id = {passage.id: passage for passage in self.world.passages}
        search = PropositionSearch(index, by_id)
        resolver = PromptedResolver(self.engine, prompts=settings.prompts)
        decomposer = Decomposer(self.engine, prompts=settings.prompts)
        return T2RagLoop(self.engine, decomposer, resolver, search, settings)

    async def hierarchy(self, folder: Path, prompts: Prompts = "own") -> HierarchyIndex:
        """TH-RAG's, with the model's own topics."""
        topics = KindTopics(self.encoder)
        extractor = PromptedChunkExtractor(self.engine, topics, prompts=prompts)
        return await build_index(folder, self.world.passages, extractor, self.encoder)

    def th_rag(self, index: HierarchyIndex, settings: ThRagSettings) -> ThRagLoop:
        """Over a hierarchy."""
        return ThRagLoop(ModelSteps(self.engine), index, settings)
