"""A loop by its name, with everything that it needs; a new loop is listed here."""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.names import nearest
from inference.engines.contract import (
    RAS_ADAPTER,
    READER_ADAPTER,
    SPAN_READER,
    T2T_ADAPTER,
    Engine,
    EngineOptions,
    Request,
)
from inference.indexes.focused import BothExtractors, Extractor
from inference.indexes.spans import SpanExtractor, SpanService
from inference.loops.baselines import IRCOT, NONE, REACT, SELF_ASK, SINGLE
from inference.loops.kind import LoopKind, LoopOptions, LoopParts, OptionsError, ReadingOptions
from inference.loops.model import GraphReader, InputMaker, chat_input, few_shot_input
from inference.loops.ras import RAS, RAS_NO_PLANNING, RAS_STATIC
from inference.loops.t2rag import T2RAG
from inference.loops.th_rag import TH_RAG
from inference.loops.trace import Loop
from inference.loops.tri_rag import TRI_RAG
from inference.loops.trig_nav import TRIG_NAV
from inference.opening.components import Component, helper_requests, open_helper, reader_inputs
from inference.opening.engine import build_engine
from inference.opening.extractors import open_extractor, open_focused_extractor
from inference.retrieval.passages import Passage
from models.formats.records import HelperTask
from models.graph_llm import GraphLLMConfig

logger = logging.getLogger(__name__)
_KINDS: tuple[LoopKind[Any], ...] = (
    NONE,
    SINGLE,
    RAS,
    RAS_NO_PLANNING,
    RAS_STATIC,
    TRI_RAG,
    T2RAG,
    TH_RAG,
    TRIG_NAV,
    IRCOT,
    REACT,
    SELF_ASK,
)
LOOPS = {kind.name: kind for kind in _KINDS}


def loop_kind(name: str) -> LoopKind[Any]:
    """Return the loop of this name. Raises OptionsError, which says the nearest known name."""
    if name not in LOOPS:
        known = ", ".join(map(repr, LOOPS))
        near = nearest(name, LOOPS)
        raise OptionsError(
            f"invalid choice: {name!r}, the nearest is {near!r} (choose from {known})"
        )
    return LOOPS[name]


@dataclass
class OpenLoop:
    """A loop with the engine and the extractor it runs on; close it when done.

    documents: what it searches. shares_engine: whether the engine is another's to close.
    """

    loop: Loop
    engine: Engine
    extractor: Extractor | None
    documents: Sequence[Passage] = ()
    shares_engine: bool = False

    async def close(self) -> None:
        """Stop the engine, unless it is shared, and release the extractor's cache."""
        if not self.shares_engine:
            await self.engine.close()
        if self.extractor is not None:
            self.extractor.close()


@dataclass(frozen=True)
class LoopComponents:
    """The trained components of a loop; for a missing one the backbone is prompted."""

    ras: Component | None
    t2t: Component | None
    helpers: Mapping[HelperTask, Component]
    default_backbone: str

    @property
    def adapters(self) -> dict[str, Component]:
        """All of them by the name under which an engine serves them."""
        own = ((RAS_ADAPTER, self.ras), (T2T_ADAPTER, self.t2t))
        return {name: component for name, component in own if component} | dict(self.helpers)

    @property
    def backbone(self) -> str:
        """Return what they were trained on; without any, what the options name."""
        found = (component.backbone for component in self.adapters.values())
        return next(found, self.default_backbone)


def in_effect(options: LoopOptions) -> dict[str, Any]:
    """Return the options by their names, with what those that are not given come to.

    `derive_comparisons` stays None where no RAS component reads what is derived.
    """
    values = vars(options).copy()
    ras = LOOPS[options.loop].folders(options).get(RAS_ADAPTER)
    if isinstance(options, ReadingOptions):
        values["extraction"] = options.extracts
        values["plan_ahead"] = _plans_ahead(options, ras)
    if ras is None:
        values["derive_comparisons"] = None
    elif options.derive_comparisons is None:
        values["derive_comparisons"] = GraphLLMConfig.read(ras).compare_dates
    return values


def in_words(options: LoopOptions) -> str:
    """Return which preset a loop runs under, and where it departs from its paper."""
    kind = LOOPS[options.loop]
    if not kind.paper:
        return f"{options.loop}: no paper's settings to compare with"
    departures = kind.departures(in_effect(options)).items()
    parts = [f"{name} {each['here']} (paper: {each['paper']})" for name, each in departures]
    return (
        f"{options.loop}, preset {options.preset}: "
        f"{'; '.join(parts) or 'every setting as in the paper'}"
    )


def read_components(options: LoopOptions) -> LoopComponents:
    """Return the components that the named loop uses.

    Raises CheckpointError for a folder that is none, OptionsError for an unknown loop.
    """
    kind = loop_kind(options.loop)
    folders = kind.folders(options)
    ras, t2t = (
        Component.open(folders[name], name) if name in folders else None
        for name in (RAS_ADAPTER, T2T_ADAPTER)
    )
    helpers: dict[HelperTask, Component] = {
        task: open_helper(folders[name], task)
        for name, task in kind.helpers.items()
        if name in folders
    }
    return LoopComponents(ras, t2t, helpers, options.backbone)


def engine_of(options: EngineOptions, loops: Sequence[LoopComponents]) -> Engine:
    """Return one engine that serves every component of several loops over one backbone.

    Raises CheckpointError for a component that belongs to another backbone.
    """
    adapters = {name: c.folder for parts in loops for name, c in parts.adapters.items()}
    return build_engine(options, backbone=loops[0].backbone, adapters=adapters)


def _open_extractor(
    engine: Engine,
    options: LoopOptions,
    unfocused: Component | str | None,
    reader: Component | None,
    spans: SpanService | None,
) -> Extractor | None:
    """Return what reads a loop's passages as its options say; None for a loop that reads none.

    unfocused: the text-to-triples component, or the name of what is prompted in its place; None
    where the loop extracts no triples. reader: None prompts the backbone. spans: the extractive
    reader, where one takes part.
    """
    if unfocused is None:
        return None
    constrain, cache = options.engine.constrain, options.cache
    extraction = options.extracts if isinstance(options, ReadingOptions) else "all"
    if extraction == "all":
        return open_extractor(engine, unfocused, cache, constrain, options.prompts)
    # An endpoint takes no grammar.
    grounded = options.engine.kind != "openai"
    focused: Extractor
    focused = open_focused_extractor(engine, reader or options.backbone, cache, grounded)
    if spans is not None:
        assert isinstance(options, ReadingOptions)
        focused = SpanExtractor(spans, focused, options.read_again)
    if extraction == "focused":
        return focused
    return BothExtractors(
        focused, open_extractor(engine, unfocused, cache, constrain, options.prompts)
    )


def _plans_ahead(options: LoopOptions, ras: object | None) -> bool:
    """Return whether all that a plan names is followed; a prompted backbone may write on alone."""
    if not isinstance(options, ReadingOptions):
        return False
    return ras is not None if options.plan_ahead is None else options.plan_ahead


def open_loop(
    options: LoopOptions,
    corpus: Sequence[Passage],
    shared: Engine | None = None,
    kept: dict[Hashable, Any] | None = None,
) -> OpenLoop:
    """Load what the named loop needs and no more.

    shared: an engine of `engine_of` to run on, which closing the loop leaves open. kept: given to
    all loops over one corpus, so that index and extractive reader are loaded once; filled here.

    Raises CheckpointError for a folder that is no component or belongs to another backbone,
    EmptyCorpusError, HierarchyError, IndexMismatchError, KnowledgeBaseError,
    PropositionIndexError.
    """
    kind, components = loop_kind(options.loop), read_components(options)
    if kind.check:
        kind.check(options)
    logger.info("%s", in_words(options))
    ras, constrain = components.ras, options.engine.constrain
    engine = engine_of(options.engine, [components]) if shared is None else shared
    make_input: InputMaker = few_shot_input if options.prompts == "paper" else chat_input
    if ras is not None:
        make_input = reader_inputs(ras, options.derive_comparisons, options.graph_encode)
    reader = GraphReader(
        engine, make_input, options.max_answer_tokens, constrain, _plans_ahead(options, ras)
    )
    unfocused = (components.t2t or components.backbone) if T2T_ADAPTER in kind.components else None
    passage_reader = components.helpers.get(READER_ADAPTER)
    folder = kind.folders(options).get(SPAN_READER)
    kept = {} if kept is None else kept
    if folder and (key := ("spans", folder)) not in kept:
        kept[key] = SpanService.open(folder)
    spans: SpanService | None = kept["spans", folder] if folder else None
    extractor = _open_extractor(engine, options, unfocused, passage_reader, spans)
    helpers: dict[str, Callable[[str], Request]] = {
        task: helper_requests(one, task) for task, one in components.helpers.items()
    }
    loop = kind.open(
        LoopParts(
            options,
            engine,
            corpus,
            reader,
            reader if ras else None,
            helpers,
            extractor,
            spans,
            kept,
        )
    )
    documents = kind.documents(loop) if kind.documents else corpus
    return OpenLoop(loop, engine, extractor, documents, shares_engine=shared is not None)
