"""The declaration of a loop: its options with their help, its components, and its opening."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, get_type_hints

from common.errors import UserError
from inference.engines.contract import (
    DEFAULT_CHECKPOINTS,
    DEFAULT_SPAN_READER,
    RAS_ADAPTER,
    READER_ADAPTER,
    SPAN_READER,
    T2T_ADAPTER,
    Engine,
    EngineOptions,
)
from inference.indexes.focused import Extractor
from inference.indexes.spans import SpanRanker, SpanService
from inference.loops.model import MAX_ANSWER_TOKENS, GraphReader, PromptRequest
from inference.loops.trace import Loop
from inference.retrieval.open_retriever import RetrieverKind, build_retriever
from inference.retrieval.passages import Passage, Retriever
from models.files.sentence_encoder import SentenceEncoder, load_sentence_encoder
from models.formats.paper_prompts import Prompts
from models.formats.records import HelperTask

Preset = Literal["tuned", "paper"]
Evidence = Literal["facts", "full"]
Extraction = Literal["focused", "all", "both"]
FirstSubquery = Literal["planned", "question"]
CHECKPOINT = "CHECKPOINT"
"""The metavar of an option that takes a component folder or 'none'."""


class OptionsError(UserError, ValueError):
    """Options that do not go together; the message says which and what to do."""


@dataclass(frozen=True)
class Option:
    """Marks, in its annotation, a field of `LoopOptions` that a command line can set.

    Its flag is the field's name. text: the help, without the default where that is a number, a
    word or yes. least: of a number.
    """

    text: str
    metavar: str | None = None
    least: int = 1


EvidenceOption = Annotated[
    Evidence,
    Option(
        "what the RAS component reads: facts alone, or full: whole triplets [C] [P] [R] of "
        "tri_rag, facts, sentences and passages of th_rag"
    ),
]
"""The annotation of `evidence`, which two loops have."""


@dataclass(frozen=True)
class Helper:
    """Marks a field for the folder of a trained helper; None prompts the backbone."""

    task: HelperTask


@dataclass(frozen=True)
class LoopOptions:
    """The options of every loop; one with options of its own has a subclass in its file.

    `ras` None means the untrained backbone, prompted by its chat template; so do `t2t` and the
    folders of helpers. `derive_comparisons` None means as the RAS component was trained.
    """

    loop: str = "ras"
    ras: Annotated[
        Path | None,
        Option(
            "RAS component folder, or 'none' for the untrained backbone (default: the shipped)",
            CHECKPOINT,
        ),
    ] = DEFAULT_CHECKPOINTS[RAS_ADAPTER]
    t2t: Annotated[
        Path | None,
        Option(
            "text-to-triples component folder, or 'none' to prompt the backbone (default: the "
            "shipped)",
            CHECKPOINT,
        ),
    ] = DEFAULT_CHECKPOINTS[T2T_ADAPTER]
    backbone: Annotated[str, Option("backbone where no checkpoint names one")] = "smollm2"
    retriever: Annotated[RetrieverKind, Option("how to search")] = "hybrid"
    title_weight: Annotated[int, Option("how often BM25 counts a passage's title")] = 5
    encoder: Annotated[str, Option("sentence encoder of the dense index")] = "minilm"
    index: Annotated[
        str | Path | None,
        Option(
            "saved indexes, made where missing: a folder, which is memory-mapped, FILE.db for "
            "embedded Milvus, or http://HOST:PORT[/NAME] for a server or cluster of it (default: "
            "in memory)",
            "INDEX",
        ),
    ] = None
    exact: Annotated[
        bool,
        Option(
            "compare a query with every vector; without, beyond 100,000 passages with those of the "
            "nearest clusters"
        ),
    ] = False
    source: Annotated[
        str | None,
        Option("search only passages of this source, such as a file; in Milvus alone", "NAME"),
    ] = None
    cache: Annotated[
        Path | None,
        Option("SQLite file of extracted triples (default: in the user's cache folder)", "FILE"),
    ] = None
    top_k: Annotated[
        int, Option("passages a subquery; conditions a query, tri_rag; passages a round, t2rag")
    ] = 3
    max_rounds: Annotated[int, Option("retrievals a question")] = 5
    max_triples: Annotated[
        int, Option("triples kept a round, the nearest to what was asked; 0: all of them", least=0)
    ] = 8
    max_answer_tokens: Annotated[int, Option("100 for short answers, 300 for long ones")] = (
        MAX_ANSWER_TOKENS
    )
    derive_comparisons: Annotated[
        bool | None,
        Option(
            "add triples that a rule derives for comparison questions once what is compared is "
            "known, such as 'date of birth earlier than' (not in the RAS paper; default: as the "
            "RAS component was trained)"
        ),
    ] = None
    graph_encode: Annotated[
        bool,
        Option("the RAS component reads the graph's tokens; without, its text alone (RAS Table 2)"),
    ] = True
    prompts: Annotated[
        Prompts,
        Option("of a backbone that is prompted: ours, or as the loop's paper prints them"),
    ] = "own"
    preset: Annotated[
        Preset,
        Option(
            "defaults of all options of the loop: tuned, ours, or paper, what its paper says "
            "(docs/fidelity.md)"
        ),
    ] = "tuned"
    engine: EngineOptions = field(default_factory=EngineOptions)

    def uses(self, component: str) -> bool:
        """Return whether the loop needs a component of its kind, by its option's name."""
        return True


@dataclass(frozen=True)
class ReadingOptions(LoopOptions):
    """What is said about a loop that reads the passages that it finds.

    `passage_reader` None prompts the backbone. `extraction` None is "all" where a text-to-triples
    component other than the shipped one is named, and no reader.
    """

    extraction: Annotated[
        Extraction | None,
        Option(
            "what is extracted of a passage: what answers the subquery that found it, all facts "
            "(as in the papers), or both (default: focused; all where --t2t is given without "
            "--passage-reader)"
        ),
    ] = None
    passage_reader: Annotated[Path | None, Helper("read")] = DEFAULT_CHECKPOINTS[READER_ADAPTER]
    span_reader: Annotated[
        Path | None,
        Option(
            "extractive reader, which answers subqueries of one step; what it finds no answer to "
            "the passage reader reads; or 'none' (default: the shipped)",
            CHECKPOINT,
        ),
    ] = DEFAULT_SPAN_READER
    ranked: Annotated[
        int, Option("passages a subquery that the extractive reader ranks before top-k are taken")
    ] = 10
    read_again: Annotated[
        int,
        Option(
            "passages a subquery that the passage reader reads where the extractive one finds an "
            "answer in none, those likeliest to have one; 0: none",
            least=0,
        ),
    ] = 3
    first_subquery: Annotated[
        FirstSubquery,
        Option(
            "ras: what is asked first, what the first plan asks or the question itself (as in the "
            "paper)"
        ),
    ] = "planned"
    stop_at_repeat: Annotated[
        bool, Option("ras: end at a subquery that was asked before (the paper's loop asks again)")
    ] = True
    plan_ahead: Annotated[
        bool | None,
        Option(
            "ras: follow all subqueries that a plan names, at once, and answer without another "
            "plan where it says that they suffice (the paper's plans name one; default: where a "
            "RAS component plans, not a backbone that is prompted)"
        ),
    ] = None
    speculate_answer: Annotated[
        bool,
        Option(
            "ras: ask for the answer beside each plan, so that it is there once the planner has "
            "enough; answers that were too early are paid for and dropped"
        ),
    ] = False
    decline: Annotated[
        bool,
        Option(
            "answer nothing where no round found any fact, the answerer unasked; ras and "
            "ras_no_planning"
        ),
    ] = False

    @property
    def extracts(self) -> Extraction:
        """Return what is extracted of a passage."""
        if self.extraction is not None:
            return self.extraction
        own_reader = self.passage_reader != ReadingOptions.passage_reader
        return "focused" if own_reader or self.t2t == ReadingOptions.t2t else "all"

    def uses(self, component: str) -> bool:
        """Return whether the loop needs a component, by its option's name."""
        unused = {"focused": (T2T_ADAPTER,), "all": ("passage_reader", SPAN_READER)}
        return component not in unused.get(self.extracts, ())


MarkT = TypeVar("MarkT")
OptionsT = TypeVar("OptionsT", bound=LoopOptions)
SHARED = tuple(f.name for f in fields(LoopOptions))


def marked(options: type[LoopOptions], mark: type[MarkT]) -> dict[str, MarkT]:
    """Return the marks of this kind in the fields' annotations, by the fields' names."""
    hints = get_type_hints(options, include_extras=True)
    found = {f.name: getattr(hints[f.name], "__metadata__", ()) for f in fields(options)}
    return {name: m for name, marks in found.items() for m in marks if isinstance(m, mark)}


@dataclass(frozen=True)
class LoopParts(Generic[OptionsT]):
    """The parts that a loop is opened with.

    reader: plans and answers, by the RAS component or by the prompted backbone. ras_reader: the
    same where there is a RAS component, else None. helpers: makers of requests to trained helpers,
    by task; without one the backbone is prompted. spans: the extractive reader, where passages are
    read with the subquery in hand. kept: what loops over one corpus have in common.
    """

    options: OptionsT
    engine: Engine
    corpus: Sequence[Passage]
    reader: GraphReader
    ras_reader: GraphReader | None
    helpers: Mapping[str, PromptRequest]
    triples_extractor: Extractor | None
    spans: SpanService | None = None
    kept: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def extractor(self) -> Extractor:
        """The extractor of triples, which loops have that name `t2t` among their components."""
        assert self.triples_extractor is not None
        return self.triples_extractor

    def retriever(self) -> Retriever:
        """Build or load the retriever. Raises IndexMismatchError, EmptyCorpusError."""
        options = self.options
        sources = None if options.source is None else (options.source,)
        given = (options.encoder, options.index, options.title_weight, options.exact, sources)
        key = ("retriever", options.retriever, *given)
        if key not in self.kept:
            self.kept[key] = build_retriever(options.retriever, self.corpus, *given)
        retriever: Retriever = self.kept[key]
        if self.spans is None or not isinstance(options, ReadingOptions):
            return retriever
        return SpanRanker(retriever, self.spans, options.ranked)

    def encoder(self) -> SentenceEncoder:
        """Load the sentence encoder."""
        return load_sentence_encoder(self.options.encoder)


@dataclass(frozen=True)
class LoopKind(Generic[OptionsT]):
    """One loop as commands know it.

    components: which of the shared ones it uses, by their options. index: the option that names
    the folder which it answers from. heading: over its own options in a command's help; None puts
    them among the shared ones. documents: what an open loop searches, where that is no corpus.
    check: raises on options that it cannot be opened with, before any model is loaded. paper: the
    options as the loop's paper has them; those that it does not name are ours.
    """

    name: str
    options: type[OptionsT]
    open: Callable[[LoopParts[OptionsT]], Loop]
    components: tuple[str, ...] = (RAS_ADAPTER,)
    searches_corpus: bool = True
    index: str | None = None
    heading: str | None = None
    documents: Callable[[Any], Sequence[Passage]] | None = None
    check: Callable[[OptionsT], object] | None = None
    paper: Mapping[str, Any] = field(default_factory=dict)

    def departures(self, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the options that are not the paper's, each as it is `here` and in the `paper`.

        given: the options by their names; None says no more than False or 0.
        """
        return {
            name: {"here": given[name], "paper": value}
            for name, value in self.paper.items()
            if (given[name] or False) != (value or False)
        }

    @cached_property
    def own(self) -> tuple[str, ...]:
        """The options that are this loop's and not shared by all."""
        return tuple(f.name for f in fields(self.options) if f.name not in SHARED)

    @cached_property
    def helpers(self) -> dict[str, HelperTask]:
        """The tasks of the helpers that the loop can use, by their options."""
        return {name: mark.task for name, mark in marked(self.options, Helper).items()}

    @cached_property
    def encoders(self) -> tuple[str, ...]:
        """The options that name a component of its own beside the engine's adapters."""
        given = marked(self.options, Option).items()
        return tuple(n for n, mark in given if mark.metavar == CHECKPOINT and n not in SHARED)

    def folders(self, options: LoopOptions) -> dict[str, Path]:
        """Return the folder of each component that takes part, by its option's name."""
        names = filter(options.uses, (*self.components, *self.helpers, *self.encoders))
        named = {name: getattr(options, name) for name in names}
        return {name: folder for name, folder in named.items() if folder}
