"""A loop by its name, with everything it needs: the one place where the parts meet."""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from inference.command_line import positive_int
from inference.components import (
    DEFAULT_CHECKPOINTS,
    RAS_ADAPTER,
    T2T_ADAPTER,
    Component,
    reader_inputs,
    triples_requests,
)
from inference.engines.contract import Engine
from inference.engines.open_engine import ENGINE_KINDS, build_engine
from inference.extraction import TripleExtractor
from inference.loops.graph_reader import GraphReader, chat_input
from inference.loops.loop import Loop
from inference.loops.no_retrieval import NoRetrievalLoop
from inference.loops.ras import RasLoop, RasSettings
from inference.loops.ras_static import StaticRasLoop
from inference.loops.single_shot import SingleShotLoop
from inference.retrieval.open_retriever import RETRIEVER_KINDS, build_retriever
from inference.retrieval.passages import Passage
from inference.triple_cache import TripleCache
from models.backbone import cache_folder

# Room for a whole batch of long prompts; short ones leave most of it unused.
MAX_BATCH_TOKENS = 65536
LOOPS = ("none", "single", "ras", "ras_no_planning", "ras_static")
LOOPS_OVER_TRIPLES = ("ras", "ras_no_planning", "ras_static")
LOOPS_OVER_CORPUS = ("single", "ras", "ras_no_planning")


@dataclass(frozen=True)
class LoopOptions:
    """What a command line says about a loop; see `add_loop_arguments`.

    `ras` None means the untrained backbone, prompted by its chat template.
    """

    loop: str = "ras"
    ras: Path | None = DEFAULT_CHECKPOINTS[RAS_ADAPTER]
    t2t: Path = DEFAULT_CHECKPOINTS[T2T_ADAPTER]
    backbone: str = "smollm2"
    engine: str = "transformers"
    dtype: str = "bfloat16"
    retriever: str = "hybrid"
    encoder: str = "minilm"
    index: Path | None = None
    cache: Path | None = None
    top_k: int = RasSettings.top_k
    max_rounds: int = RasSettings.max_rounds
    max_triples: int = RasSettings.max_triples
    max_answer_tokens: int = 100
    max_batch_size: int = 64
    merge_adapters: bool = True


def add_loop_arguments(parser: ArgumentParser) -> None:
    """Options of `LoopOptions` with its defaults, the same for every command that runs a loop."""
    add = parser.add_argument
    add("--loop", choices=LOOPS, help="which loop answers (default: %(default)s)")
    add(
        "--ras",
        type=_checkpoint,
        metavar="CHECKPOINT",
        help="RAS component folder, or 'none' for the untrained backbone (default: the shipped)",
    )
    add(
        "--t2t",
        type=Path,
        metavar="CHECKPOINT",
        help="text-to-triples component folder (default: the shipped)",
    )
    add("--backbone", help="backbone where no checkpoint names one (default: %(default)s)")
    add("--engine", choices=ENGINE_KINDS, help="what runs the models (default: %(default)s)")
    add(
        "--dtype",
        choices=("bfloat16", "float32", "auto"),
        help="of the backbone's weights (default: %(default)s)",
    )
    add("--retriever", choices=RETRIEVER_KINDS, help="how to search (default: %(default)s)")
    add("--encoder", help="sentence encoder of the dense index (default: %(default)s)")
    add("--index", type=Path, metavar="DIR", help="folder of saved indexes, made where missing")
    add(
        "--cache",
        type=Path,
        metavar="FILE",
        help="SQLite file of extracted triples (default: in the user's cache folder)",
    )
    add("--top-k", type=positive_int, help="passages a subquery (default: %(default)s)")
    add("--max-rounds", type=positive_int, help="retrievals a question (default: %(default)s)")
    add("--max-triples", type=positive_int, help="triples kept a round (default: %(default)s)")
    add(
        "--max-answer-tokens",
        type=positive_int,
        help="100 for short answers, 300 for long ones (default: %(default)s)",
    )
    add(
        "--max-batch-size",
        type=positive_int,
        help="requests that the engine runs at once (default: %(default)s)",
    )
    add(
        "--merge-adapters",
        action=BooleanOptionalAction,
        help="serve each adapter merged into a copy of the backbone (default: yes)",
    )
    parser.set_defaults(**{f.name: f.default for f in fields(LoopOptions)})


def options_from(arguments: Namespace) -> LoopOptions:
    """The loop's options out of a parsed command line."""
    return LoopOptions(**{f.name: getattr(arguments, f.name) for f in fields(LoopOptions)})


def _checkpoint(text: str) -> Path | None:
    return None if text == "none" else Path(text)


@dataclass
class OpenLoop:
    """A loop with the engine and the cache it runs on; close it when done."""

    loop: Loop
    engine: Engine
    cache: TripleCache | None

    async def close(self) -> None:
        """Stop the engine and release the cache."""
        await self.engine.close()
        if self.cache is not None:
            self.cache.close()


def open_extractor(engine: Engine, component: Component, cache: Path | None) -> TripleExtractor:
    """The text-to-triples model over its persistent cache."""
    path = cache or cache_folder() / "triples.sqlite"
    return TripleExtractor(
        engine, triples_requests(component), TripleCache(path, component.fingerprint)
    )


def open_loop(options: LoopOptions, corpus: Sequence[Passage]) -> OpenLoop:
    """Load what the named loop needs and no more.

    Raises CheckpointError for a folder that is no component or belongs to another backbone,
    EmptyCorpusError, IndexMismatchError.
    """
    uses_ras = options.ras is not None and options.loop != "single"
    ras = Component.open(str(options.ras), "ras") if uses_ras else None
    t2t = Component.open(options.t2t, "t2t") if options.loop in LOOPS_OVER_TRIPLES else None
    components = {name: c for name, c in ((RAS_ADAPTER, ras), (T2T_ADAPTER, t2t)) if c}
    backbone = next((c.backbone for c in components.values()), options.backbone)
    engine = build_engine(
        options.engine,
        backbone=backbone,
        adapters={name: component.folder for name, component in components.items()},
        dtype=options.dtype,
        max_batch_size=options.max_batch_size,
        max_batch_tokens=MAX_BATCH_TOKENS,
        merge_adapters=options.merge_adapters,
    )
    reader = GraphReader(
        engine, reader_inputs(ras) if ras else chat_input, options.max_answer_tokens
    )
    extractor = open_extractor(engine, t2t, options.cache) if t2t else None
    loop = _build(options, engine, reader, extractor, corpus)
    return OpenLoop(loop, engine, extractor.cache if extractor else None)


def _build(
    options: LoopOptions,
    engine: Engine,
    reader: GraphReader,
    extractor: TripleExtractor | None,
    corpus: Sequence[Passage],
) -> Loop:
    if options.loop == "none":
        return NoRetrievalLoop(reader)
    if options.loop == "ras_static":
        assert extractor is not None
        return StaticRasLoop(reader, extractor)
    retriever = build_retriever(options.retriever, corpus, options.encoder, options.index)
    if options.loop == "single":
        return SingleShotLoop(engine, retriever, options.top_k)
    assert extractor is not None
    settings = RasSettings(
        options.top_k, options.max_rounds, options.max_triples, options.loop == "ras"
    )
    return RasLoop(reader, retriever, extractor, settings)
