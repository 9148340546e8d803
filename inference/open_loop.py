"""A loop by its name, with everything it needs: the one place where the parts meet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inference.components import (
    RAS_ADAPTER,
    T2T_ADAPTER,
    Component,
    reader_inputs,
    triples_requests,
)
from inference.engines.contract import Engine
from inference.engines.open_engine import build_engine
from inference.extraction import (
    HELD,
    RequestMaker,
    TripleExtractor,
    held_to,
    prompted_triples_request,
)
from inference.knowledge_base.store import KnowledgeBase, KnowledgeBaseError
from inference.loop_options import LOOPS_OVER_TRIPLES, TH_RAG, TRIG_NAV, LoopOptions
from inference.loops.graph_reader import GraphReader, chat_input
from inference.loops.loop import Loop
from inference.loops.no_retrieval import NoRetrievalLoop
from inference.loops.ras import RasLoop, RasSettings
from inference.loops.ras_static import StaticRasLoop
from inference.loops.single_shot import SingleShotLoop
from inference.loops.th_rag import ThRagLoop
from inference.loops.tri_rag import TriRagLoop, TriRagSettings
from inference.open_graph_loops import open_th_rag, open_trig_nav, open_trig_nav_helpers
from inference.retrieval.open_retriever import build_retriever
from inference.retrieval.passages import Passage
from inference.triple_cache import TripleCache
from models.backbone import cache_folder
from models.formats.grammars import triples_regex
from models.sentence_encoder import load_sentence_encoder


@dataclass
class OpenLoop:
    """A loop with the engine and the cache it runs on; close it when done.

    documents: what it searches.
    """

    loop: Loop
    engine: Engine
    cache: TripleCache | None
    documents: Sequence[Passage] = ()

    async def close(self) -> None:
        """Stop the engine and release the cache."""
        await self.engine.close()
        if self.cache is not None:
            self.cache.close()


def open_extractor(
    engine: Engine,
    component: Component | str,
    cache: Path | None,
    constrain: bool = False,
) -> TripleExtractor:
    """The text-to-triples model, or an untrained one by its name, over its persistent cache;
    `constrain` holds it to its grammar.
    """
    path = cache or cache_folder() / "triples.sqlite"
    make_request: RequestMaker = prompted_triples_request
    model = f"prompted {component}"
    if isinstance(component, Component):
        make_request, model = triples_requests(component), component.fingerprint
    if constrain:
        make_request, model = held_to(triples_regex(), make_request), model + HELD
    return TripleExtractor(engine, make_request, TripleCache(path, model))


def open_loop(options: LoopOptions, corpus: Sequence[Passage]) -> OpenLoop:
    """Load what the named loop needs and no more.

    Raises CheckpointError for a folder that is no component or belongs to another backbone,
    EmptyCorpusError, IndexMismatchError, KnowledgeBaseError.
    """
    uses_ras = options.ras is not None and options.loop != "single"
    ras = Component.open(str(options.ras), "ras") if uses_ras else None
    reads_triples = options.loop in LOOPS_OVER_TRIPLES
    t2t = Component.open(options.t2t, "t2t") if reads_triples and options.t2t else None
    helpers = open_trig_nav_helpers(options)
    components = {name: c for name, c in ((RAS_ADAPTER, ras), (T2T_ADAPTER, t2t)) if c} | helpers
    backbone = next((c.backbone for c in components.values()), options.backbone)
    engine = build_engine(
        options.engine,
        backbone=backbone,
        adapters={name: component.folder for name, component in components.items()},
    )
    reader = GraphReader(
        engine,
        reader_inputs(ras) if ras else chat_input,
        options.max_answer_tokens,
        options.engine.constrain,
    )
    extractor = None
    if reads_triples:
        extractor = open_extractor(engine, t2t or backbone, options.cache, options.engine.constrain)
    loop = _build(options, engine, reader, extractor, corpus, helpers)
    documents = loop.index.documents if isinstance(loop, ThRagLoop) else corpus
    return OpenLoop(loop, engine, extractor.cache if extractor else None, documents)


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
        return _tri_rag(options, engine, reader, corpus)
    if options.loop == TH_RAG:
        return open_th_rag(options, engine, reader)
    retriever = build_retriever(
        options.retriever, corpus, options.encoder, options.index, options.title_weight
    )
    if options.loop == "single":
        return SingleShotLoop(engine, retriever, options.top_k)
    assert extractor is not None
    if options.loop == TRIG_NAV:
        return open_trig_nav(options, engine, reader, extractor, retriever, helpers)
    settings = RasSettings(
        options.top_k, options.max_rounds, options.max_triples, options.loop == "ras"
    )
    return RasLoop(reader, retriever, extractor, settings)


def _tri_rag(
    options: LoopOptions, engine: Engine, reader: GraphReader, corpus: Sequence[Passage]
) -> TriRagLoop:
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
