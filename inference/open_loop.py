"""A loop by its name, with everything it needs: the one place where the parts meet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inference.components import (
    RAS_ADAPTER,
    T2T_ADAPTER,
    Component,
    open_helper,
    reader_inputs,
)
from inference.engines.contract import Engine
from inference.engines.open_engine import build_engine
from inference.engines.options import EngineOptions
from inference.extraction import TripleExtractor
from inference.loop_groups import T2RAG, TH_RAG, TRIG_NAV, helpers_of
from inference.loop_options import LOOPS_OVER_TRIPLES, MULTI_ROUND_BASELINES, LoopOptions
from inference.loops.graph_reader import GraphReader, chat_input
from inference.loops.ircot import IrcotLoop
from inference.loops.loop import Loop
from inference.loops.no_retrieval import NoRetrievalLoop
from inference.loops.passage_steps import PassageSettings, PassageSteps
from inference.loops.ras import RasLoop, RasSettings
from inference.loops.ras_static import StaticRasLoop
from inference.loops.react import ReactLoop
from inference.loops.self_ask import SelfAskLoop
from inference.loops.single_shot import SingleShotLoop
from inference.loops.th_rag import ThRagLoop
from inference.open_extractor import open_extractor
from inference.open_graph_loops import open_th_rag, open_trig_nav
from inference.open_t2rag import build_t2rag
from inference.open_tri_rag import open_tri_rag
from inference.retrieval.open_retriever import build_retriever
from inference.retrieval.passages import Passage
from inference.triple_cache import TripleCache

BASELINES: dict[str, Callable[[PassageSteps], Loop]] = {
    "ircot": IrcotLoop,
    "react": ReactLoop,
    "self_ask": SelfAskLoop,
}


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
