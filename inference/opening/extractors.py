"""The models that read a corpus for triples or a hierarchy's facts, with all that they need."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from common.cache import cache_folder
from inference.engines.contract import (
    DEFAULT_CHECKPOINTS,
    READER_ADAPTER,
    T2T_ADAPTER,
    Engine,
    EngineOptions,
    Request,
)
from inference.indexes.extraction import HELD, RequestMaker, TripleCache, TripleExtractor, held_to
from inference.indexes.focused import FocusedExtractor
from inference.indexes.hierarchy.build import Chunking
from inference.indexes.hierarchy.extraction import (
    AdapterChunkExtractor,
    ChunkExtractor,
    PromptedChunkExtractor,
)
from inference.indexes.hierarchy.kinds import KindTopics, TopicSource
from inference.indexes.hierarchy.store import HierarchyError, HierarchyStore
from inference.indexes.hierarchy.topics import INDEXER, OF_CORPUS
from inference.opening.components import (
    Component,
    helper_processor,
    helper_requests,
    open_helper,
    paper_triples_request,
    prompted_reading_request,
    prompted_triples_request,
    triples_requests,
)
from inference.opening.engine import build_engine
from models.files.sentence_encoder import SentenceEncoder
from models.formats.grammars import triples_regex
from models.formats.paper_prompts import Prompts
from models.text_to_triples import TextToTriplesConfig

# Prompts of a reader whose cut is known: those of many questions at once.
FITTED_PROMPTS = 4096
# Of the text-to-triples model's source tokens, for its instruction and the title.
_PROMPT_TOKENS = 96
BY_PAPER = " by the paper"
"""Of the name of what is asked by a paper's own prompt."""


def extractor_name(component: Component | str, constrain: bool = False) -> str:
    """What tells an extractor from others, in the cache and in indexes of its triples."""
    name = component.fingerprint if isinstance(component, Component) else f"prompted {component}"
    return name + (HELD if constrain else "")


def open_extractor(
    engine: Engine,
    component: Component | str,
    cache: Path | None,
    constrain: bool = False,
    prompts: Prompts = "own",
) -> TripleExtractor:
    """The text-to-triples model, or an untrained one by its name, over its persistent cache.

    `constrain` holds it to its grammar. prompts: of an untrained one.
    """
    make_request: RequestMaker = prompted_triples_request
    name = extractor_name(component, constrain)
    if isinstance(component, Component):
        make_request = triples_requests(component)
    elif prompts == "paper":
        make_request, name = paper_triples_request, name + BY_PAPER
    if constrain:
        make_request = held_to(triples_regex(), make_request)
    path = cache or cache_folder() / "triples.sqlite"
    return TripleExtractor(engine, make_request, TripleCache(path, name))


def open_focused_extractor(
    engine: Engine, component: Component | str, cache: Path | None, grounded: bool = True
) -> FocusedExtractor:
    """Return the reader, or an untrained one by its name, over its persistent cache.

    grounded: hold its answers to the passage's words.
    """
    make_request: Callable[[str], Request] = prompted_reading_request
    fitted: Callable[[str], str] = str
    name = f"prompted {component}"
    if isinstance(component, Component):
        make_request, name = helper_requests(component, READER_ADAPTER), component.fingerprint
        # A passage's request and the count of those cut ask for the same prompt.
        fitted = lru_cache(FITTED_PROMPTS)(helper_processor(component).fitted)
    path = cache or cache_folder() / "triples.sqlite"
    name = f"read {name}{'' if grounded else ' ungrounded'}"
    cache_of_reader = TripleCache(path, name)
    return FocusedExtractor(engine, make_request, cache_of_reader, grounded=grounded, fitted=fitted)


@dataclass(frozen=True)
class IndexerOptions:
    """What a command line says of the indexing model; see `build_hierarchy.py`."""

    kind: str = "t2t"
    t2t: Path = DEFAULT_CHECKPOINTS[T2T_ADAPTER]
    topic_helper: Path | None = None
    topics: TopicSource = "fields"
    backbone: str = "smollm2"
    prompts: Prompts = "own"
    max_output_tokens: int = 2048
    cache: Path | None = None
    engine: EngineOptions = field(default_factory=EngineOptions)


@dataclass(frozen=True)
class OpenIndexer:
    """An extractor, the engine that it runs on, what tells it from others, how long a chunk it
    reads, in tokens, and the cache of what was extracted before, where it has one."""

    engine: Engine
    extractor: ChunkExtractor
    name: str
    chunk_tokens: int
    cache: TripleCache | None = None

    async def close(self) -> None:
        """Stop the engine and release the cache."""
        await self.engine.close()
        if self.cache is not None:
            self.cache.close()


def open_indexer(
    options: IndexerOptions, encoder: SentenceEncoder, meter: Callable[[Engine], Engine]
) -> OpenIndexer:
    """Load what the options name; `meter` wraps the engine to count its calls.

    Raises CheckpointError, HierarchyError, EngineError.
    """
    by_paper = options.prompts == "paper"
    if by_paper and options.kind != "prompted":
        raise HierarchyError(
            "--prompts paper is what a prompted model is asked by, and the text-to-triples model "
            "reads the form of its training: give --indexer prompted, or leave --prompts out"
        )
    topics = KindTopics(encoder, options.topics)
    if options.kind == "prompted":
        if by_paper and options.engine.constrain:
            raise HierarchyError(
                "--constrain holds outputs to one list of triplets, and the paper's prompt asks "
                "for an object each: give --prompts own, or leave --constrain out"
            )
        engine = meter(build_engine(options.engine, backbone=options.backbone))
        extractor = PromptedChunkExtractor(
            engine, topics, options.max_output_tokens, options.engine.constrain, options.prompts
        )
        name = f"prompted {options.backbone}{BY_PAPER if by_paper else ''}{_of_corpus(options)}"
        return OpenIndexer(engine, extractor, name, Chunking.max_tokens)
    return _open_adapters(options, topics, meter)


def _open_adapters(
    options: IndexerOptions, topics: KindTopics, meter: Callable[[Engine], Engine]
) -> OpenIndexer:
    t2t = Component.open(options.t2t, "t2t")
    adapters, name, ask = {T2T_ADAPTER: t2t.folder}, f"t2t {t2t.fingerprint}", None
    if options.topic_helper is not None:
        helper = open_helper(options.topic_helper, "topic")
        adapters["topic"], ask = helper.folder, helper_requests(helper, "topic")
        name = f"{name} topic {helper.fingerprint}"
    name += _of_corpus(options)
    if options.engine.constrain:
        name += HELD
    engine = meter(build_engine(options.engine, backbone=t2t.backbone, adapters=adapters))
    triples = open_extractor(engine, t2t, options.cache, options.engine.constrain)
    most = TextToTriplesConfig.read(t2t.folder).max_input_tokens
    reads = max(most - _PROMPT_TOKENS, _PROMPT_TOKENS)
    extractor = AdapterChunkExtractor(triples, topics, ask)
    return OpenIndexer(engine, extractor, name, reads, triples.cache)


def _of_corpus(options: IndexerOptions) -> str:
    return OF_CORPUS if options.topics == "corpus" else ""


def check_indexer(store: HierarchyStore, name: str) -> None:
    """Note which indexing model a hierarchy is made with; refuse another one, naming both."""
    known = store.about().get(INDEXER)
    if known is None:
        store.note({INDEXER: name})
    elif known != name:
        raise HierarchyError(
            f"the hierarchy was begun with the indexing model '{known}', and '{name}' is given. "
            "Use the first, or name another folder"
        )
