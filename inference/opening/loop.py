"""A loop by its name, with everything that it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inference.engines.contract import Engine, EngineOptions
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.hierarchy.store import HierarchyError
from inference.indexes.knowledge_base.store import KnowledgeBase, KnowledgeBaseError
from inference.loops.baselines import (
    IrcotLoop,
    NoRetrievalLoop,
    ReactLoop,
    SelfAskLoop,
    SingleShotLoop,
)
from inference.loops.graph_evidence import EvidenceGatherer, EvidenceSettings
from inference.loops.model import GraphReader, ModelSteps, PassageSettings, PassageSteps, chat_input
from inference.loops.ras import RasLoop, RasSettings, StaticRasLoop
from inference.loops.th_rag import CHOICE_STEPS, ThRagLoop, ThRagSettings
from inference.loops.trace import Loop
from inference.loops.tri_rag import TriRagLoop, TriRagSettings
from inference.loops.trig_nav import TrigNavLoop, TrigNavSettings
from inference.opening.components import (
    RAS_ADAPTER,
    T2T_ADAPTER,
    Component,
    helper_requests,
    open_helper,
    reader_inputs,
)
from inference.opening.engine import build_engine
from inference.opening.extractors import open_extractor
from inference.opening.loop_options import (
    LOOPS_OVER_TRIPLES,
    MULTI_ROUND_BASELINES,
    T2RAG,
    TH_RAG,
    TRIG_NAV,
    LoopOptions,
    helpers_of,
)
from inference.opening.t2rag import build_t2rag
from inference.retrieval.open_retriever import build_retriever
from inference.retrieval.passages import Passage, Retriever
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.records import HelperTask

CHOOSER: HelperTask = "choose_topics"
BASELINES: dict[str, Callable[[PassageSteps], Loop]] = {
    "ircot": IrcotLoop,
    "react": ReactLoop,
    "self_ask": SelfAskLoop,
}


def open_tri_rag(
    options: LoopOptions, engine: Engine, reader: GraphReader, corpus: Sequence[Passage]
) -> TriRagLoop:
    """Tri-RAG over the knowledge base that the options name.

    `reader` answers where a RAS component is named. Raises KnowledgeBaseError, also for a corpus
    that lacks a document of the knowledge base.
    """
    if options.kb is None:
        raise KnowledgeBaseError(
            "--loop tri_rag answers from a knowledge base: name it with --kb, after "
            "inference/build_kb.py has made it"
        )
    base = KnowledgeBase.load(options.kb, load_sentence_encoder(options.encoder))
    documents = {passage.id: passage for passage in corpus}
    unknown = [s for entry in base.entries for s in entry.sources if s not in documents]
    if unknown:
        raise KnowledgeBaseError(
            f"{options.kb} holds document '{unknown[0]}', which the corpus does not: name the "
            "corpus that it was built from"
        )
    settings = TriRagSettings(
        options.top_k,
        options.selected,
        options.evidence_budget,
        options.max_rounds,
        options.max_answer_tokens,
    )
    facts_reader = reader if options.ras is not None else None
    return TriRagLoop(engine, base, settings, facts_reader, documents.__getitem__)


def open_th_rag(
    options: LoopOptions, engine: Engine, reader: GraphReader, helpers: Mapping[str, Component]
) -> ThRagLoop:
    """TH-RAG over the hierarchy that the options name; a trained chooser chooses at both levels.

    `reader` answers where a RAS component is named. Raises HierarchyError, IndexMismatchError.
    """
    if options.hierarchy is None:
        raise HierarchyError(
            "--loop th_rag answers from a hierarchy: name it with --hierarchy, after "
            "inference/build_hierarchy.py has made it"
        )
    index = HierarchyIndex.load(options.hierarchy, load_sentence_encoder(options.encoder))
    least_topics, least_subtopics = ThRagSettings.topics[0], ThRagSettings.subtopics[0]
    settings = ThRagSettings(
        topics=(min(least_topics, options.most_topics), options.most_topics),
        subtopics=(min(least_subtopics, options.most_subtopics), options.most_subtopics),
        sentences=options.sentences,
        passages=options.passages,
        link_weight=options.link_weight,
        name_weight=options.name_weight,
        traversal=options.traversal,  # type: ignore[arg-type]
        max_answer_tokens=options.max_answer_tokens,
    )
    answers = reader if options.ras is not None else None
    chooser = helper_requests(helpers[CHOOSER]) if CHOOSER in helpers else None
    steps = ModelSteps(engine, dict.fromkeys(CHOICE_STEPS.values(), chooser) if chooser else None)
    return ThRagLoop(steps, index, settings, answers)


def open_trig_nav(
    options: LoopOptions,
    engine: Engine,
    reader: GraphReader,
    extractor: TripleExtractor,
    retriever: Retriever,
    helpers: Mapping[str, Component],
) -> TrigNavLoop:
    """Trig-Nav over a corpus; `reader` answers where a RAS component is named."""
    evidence = EvidenceSettings(
        options.top_k,
        options.max_triples,
        options.knowledge,  # type: ignore[arg-type]
    )
    encoder = load_sentence_encoder(options.encoder)
    gatherer = EvidenceGatherer(retriever, extractor, encoder, evidence)
    settings = TrigNavSettings(
        options.judge, options.recall, max_answer_tokens=options.max_answer_tokens
    )
    steps = ModelSteps(engine, {task: helper_requests(c) for task, c in helpers.items()})
    answers = reader if options.ras is not None else None
    return TrigNavLoop(steps, gatherer, settings, answers)


@dataclass
class OpenLoop:
    """A loop with the engine and the cache it runs on; close it when done.

    documents: what it searches. shares_engine: whether the engine is another's to close.
    """

    loop: Loop
    engine: Engine
    cache: TripleCache | None
    documents: Sequence[Passage] = ()
    shares_engine: bool = False

    async def close(self) -> None:
        """Stop the engine, unless it is shared, and release the cache."""
        if not self.shares_engine:
            await self.engine.close()
        if self.cache is not None:
            self.cache.close()


@dataclass(frozen=True)
class LoopComponents:
    """What a loop has of trained components; None or without the helper: the backbone does it."""

    ras: Component | None
    t2t: Component | None
    helpers: Mapping[str, Component]
    default_backbone: str

    @property
    def adapters(self) -> dict[str, Component]:
        """All of them by the name under which an engine serves them."""
        own = ((RAS_ADAPTER, self.ras), (T2T_ADAPTER, self.t2t))
        return {name: component for name, component in own if component} | dict(self.helpers)

    @property
    def backbone(self) -> str:
        """What they were trained on; without any, what the options name."""
        found = (component.backbone for component in self.adapters.values())
        return next(found, self.default_backbone)


def read_components(options: LoopOptions) -> LoopComponents:
    """The components that the named loop uses. Raises CheckpointError for a folder that is none."""
    ras = Component.open(str(options.ras), "ras") if options.uses_ras else None
    reads_triples = options.loop in LOOPS_OVER_TRIPLES
    t2t = Component.open(options.t2t, "t2t") if reads_triples and options.t2t else None
    return LoopComponents(ras, t2t, _open_helpers(options), options.backbone)


def engine_of(options: EngineOptions, loops: Sequence[LoopComponents]) -> Engine:
    """One engine that serves every component of several loops over one backbone.

    Raises CheckpointError for a component that belongs to another backbone.
    """
    adapters = {name: c.folder for parts in loops for name, c in parts.adapters.items()}
    return build_engine(options, backbone=loops[0].backbone, adapters=adapters)


def open_loop(
    options: LoopOptions, corpus: Sequence[Passage], shared: Engine | None = None
) -> OpenLoop:
    """Load what the named loop needs and no more.

    shared: an engine of `engine_of` to run on, which closing the loop leaves open.

    Raises CheckpointError for a folder that is no component or belongs to another backbone,
    EmptyCorpusError, HierarchyError, IndexMismatchError, KnowledgeBaseError,
    PropositionIndexError.
    """
    parts = read_components(options)
    ras, t2t, helpers = parts.ras, parts.t2t, parts.helpers
    engine = engine_of(options.engine, [parts]) if shared is None else shared
    reader = GraphReader(
        engine,
        reader_inputs(ras, options.derive_comparisons) if ras else chat_input,
        options.max_answer_tokens,
        options.engine.constrain,
    )
    extractor = None
    if options.loop in LOOPS_OVER_TRIPLES:
        extractor = open_extractor(
            engine, t2t or parts.backbone, options.cache, options.engine.constrain
        )
    loop = _build(options, engine, reader, extractor, corpus, helpers)
    documents = loop.index.documents if isinstance(loop, ThRagLoop) else corpus
    cache = extractor.cache if extractor else None
    return OpenLoop(loop, engine, cache, documents, shares_engine=shared is not None)


def _open_helpers(options: LoopOptions) -> dict[str, Component]:
    """The trained helpers that the options name and the loop can use, by task."""
    folders = {task: getattr(options, name) for name, task in helpers_of(options.loop).items()}
    return {task: open_helper(folder, task) for task, folder in folders.items() if folder}


def _build(
    options: LoopOptions,
    engine: Engine,
    reader: GraphReader,
    extractor: TripleExtractor | None,
    corpus: Sequence[Passage],
    helpers: Mapping[str, Component],
) -> Loop:
    if options.loop == "none":
        return NoRetrievalLoop(reader)
    if options.loop == "ras_static":
        assert extractor is not None
        return StaticRasLoop(reader, extractor)
    if options.loop == "tri_rag":
        return open_tri_rag(options, engine, reader, corpus)
    if options.loop == T2RAG:
        answerer = reader if options.ras else None
        return build_t2rag(options, engine, answerer, helpers, corpus)
    if options.loop == TH_RAG:
        return open_th_rag(options, engine, reader, helpers)
    retriever = build_retriever(
        options.retriever, corpus, options.encoder, options.index, options.title_weight
    )
    if options.loop == "single":
        return SingleShotLoop(engine, retriever, options.top_k)
    if options.loop in MULTI_ROUND_BASELINES:
        limits = PassageSettings(
            options.top_k, options.max_rounds, max_answer_tokens=options.max_answer_tokens
        )
        return BASELINES[options.loop](PassageSteps(engine, retriever, limits))
    assert extractor is not None
    if options.loop == TRIG_NAV:
        return open_trig_nav(options, engine, reader, extractor, retriever, helpers)
    settings = RasSettings(
        options.top_k, options.max_rounds, options.max_triples, options.loop == "ras"
    )
    return RasLoop(reader, retriever, extractor, settings)
