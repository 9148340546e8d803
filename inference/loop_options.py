"""What a command line says about a loop, the same for every command that runs one."""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from dataclasses import dataclass, field, fields
from pathlib import Path

from inference.command_line import OptionsError, positive_int
from inference.components import DEFAULT_CHECKPOINTS, RAS_ADAPTER, T2T_ADAPTER
from inference.engine_arguments import add_engine_arguments, engine_options_from
from inference.engines.options import EngineOptions
from inference.loop_groups import (
    GRANULARITIES,
    T2RAG,
    TH_RAG,
    TRIG_NAV,
    add_loop_groups,
    checkpoint_or_none,
)
from inference.loops.graph_evidence import EvidenceSettings
from inference.loops.passage_steps import PassageSettings
from inference.loops.ras import RasSettings
from inference.loops.t2rag import T2RagSettings
from inference.loops.th_rag import ThRagSettings
from inference.loops.tri_rag import TriRagSettings
from inference.loops.trig_nav import TrigNavSettings
from inference.retrieval.open_retriever import RETRIEVER_KINDS

ENGINE = "engine"
MULTI_ROUND_BASELINES = ("ircot", "react", "self_ask")
LOOPS = (
    "none",
    "single",
    "ras",
    "ras_no_planning",
    "ras_static",
    "tri_rag",
    T2RAG,
    TH_RAG,
    TRIG_NAV,
    *MULTI_ROUND_BASELINES,
)
LOOPS_OVER_TRIPLES = ("ras", "ras_no_planning", "ras_static", TRIG_NAV)
LOOPS_OVER_CORPUS = tuple(loop for loop in LOOPS if loop not in ("none", "ras_static", TH_RAG))
LOOPS_WITHOUT_RAS = ("single", *MULTI_ROUND_BASELINES)
# Passages a search and most searches, where they are not RAS's.
_OWN_DEFAULTS = {
    T2RAG: (T2RagSettings.top_k, T2RagSettings.max_rounds),
    TRIG_NAV: (EvidenceSettings.top_k, RasSettings.max_rounds),
    **dict.fromkeys(MULTI_ROUND_BASELINES, (PassageSettings.top_k, PassageSettings.max_rounds)),
}
_IN_ROUNDS = ", ".join((T2RAG, *MULTI_ROUND_BASELINES))


@dataclass(frozen=True)
class LoopOptions:
    """What a command line says about a loop; see `add_loop_arguments`.

    `ras` None means the untrained backbone, prompted by its chat template; so do `t2t`,
    `topic_chooser`, `gap_judge`, `decomposer` and `resolver`. `derive_comparisons` None means as
    the RAS component was trained.
    """

    loop: str = "ras"
    ras: Path | None = DEFAULT_CHECKPOINTS[RAS_ADAPTER]
    t2t: Path | None = DEFAULT_CHECKPOINTS[T2T_ADAPTER]
    backbone: str = "smollm2"
    retriever: str = "hybrid"
    title_weight: int = 5
    encoder: str = "minilm"
    index: Path | None = None
    cache: Path | None = None
    kb: Path | None = None
    selected: int = TriRagSettings.selected
    evidence_budget: int = TriRagSettings.budget
    propositions: Path | None = None
    granularity: str = GRANULARITIES[0]
    without_passages: bool = False
    top_k: int = RasSettings.top_k
    max_rounds: int = RasSettings.max_rounds
    max_triples: int = RasSettings.max_triples
    max_answer_tokens: int = 100
    derive_comparisons: bool | None = None
    hierarchy: Path | None = None
    traversal: str = ThRagSettings.traversal
    topic_chooser: Path | None = None
    most_topics: int = ThRagSettings.topics[1]
    most_subtopics: int = ThRagSettings.subtopics[1]
    sentences: int = ThRagSettings.sentences
    passages: int = ThRagSettings.passages
    link_weight: float = ThRagSettings.link_weight
    name_weight: float = ThRagSettings.name_weight
    judge: bool = TrigNavSettings.judge
    recall: bool = TrigNavSettings.recall
    knowledge: str = EvidenceSettings.knowledge
    gap_judge: Path | None = None
    decomposer: Path | None = None
    resolver: Path | None = None
    engine: EngineOptions = field(default_factory=EngineOptions)

    @property
    def uses_ras(self) -> bool:
        """Whether a RAS component takes part."""
        return self.ras is not None and self.loop not in LOOPS_WITHOUT_RAS


def add_loop_arguments(parser: ArgumentParser, several: bool = False) -> None:
    """Options of `LoopOptions` with its defaults, the same for every command that runs a loop.

    several: `--loops` with a list in place of `--loop`.
    """
    add = parser.add_argument
    if several:
        add("--loops", nargs="+", required=True, choices=LOOPS, help="which loops answer, in turn")
    else:
        add("--loop", choices=LOOPS, help="which loop answers (default: %(default)s)")
    add(
        "--ras",
        type=checkpoint_or_none,
        metavar="CHECKPOINT",
        help="RAS component folder, or 'none' for the untrained backbone (default: the shipped)",
    )
    add(
        "--t2t",
        type=checkpoint_or_none,
        metavar="CHECKPOINT",
        help="text-to-triples component folder, or 'none' to prompt the backbone (default: the "
        "shipped)",
    )
    add("--backbone", help="backbone where no checkpoint names one (default: %(default)s)")
    add("--retriever", choices=RETRIEVER_KINDS, help="how to search (default: %(default)s)")
    add(
        "--title-weight",
        type=positive_int,
        help="how often BM25 counts a passage's title (default: %(default)s)",
    )
    add("--encoder", help="sentence encoder of the dense index (default: %(default)s)")
    add("--index", type=Path, metavar="DIR", help="folder of saved indexes, made where missing")
    add(
        "--cache",
        type=Path,
        metavar="FILE",
        help="SQLite file of extracted triples (default: in the user's cache folder)",
    )
    add("--kb", type=Path, metavar="DIR", help="knowledge base of build_kb.py, for tri_rag")
    add("--selected", type=positive_int, help="triplets a query, tri_rag (default: %(default)s)")
    add(
        "--evidence-budget",
        type=positive_int,
        help="tokens of the evidence block, tri_rag (default: %(default)s)",
    )
    add(
        "--top-k",
        type=positive_int,
        help="passages a subquery; conditions a query, tri_rag; passages a round, t2rag "
        f"(default: {RasSettings.top_k}; {T2RagSettings.top_k} for {', '.join(_OWN_DEFAULTS)})",
    )
    add(
        "--max-rounds",
        type=positive_int,
        help=f"retrievals a question (default: {RasSettings.max_rounds}; "
        f"{T2RagSettings.max_rounds} for {_IN_ROUNDS})",
    )
    add("--max-triples", type=positive_int, help="triples kept a round (default: %(default)s)")
    add(
        "--max-answer-tokens",
        type=positive_int,
        help="100 for short answers, 300 for long ones (default: %(default)s)",
    )
    add(
        "--derive-comparisons",
        action=BooleanOptionalAction,
        help="add triples that a rule derives for comparison questions once what is compared is "
        "known, such as 'date of birth earlier than' (not in the RAS paper; default: as the RAS "
        "component was trained)",
    )
    add_loop_groups(parser)
    defaults = {f.name: f.default for f in fields(LoopOptions) if f.name != ENGINE}
    parser.set_defaults(**{**defaults, "top_k": None, "max_rounds": None})
    add_engine_arguments(parser)


def options_from(arguments: Namespace) -> LoopOptions:
    """The loop's options out of a parsed command line.

    Raises OptionsError for those of the loop that do not go together.
    """
    own = {f.name: getattr(arguments, f.name) for f in fields(LoopOptions) if f.name != ENGINE}
    ras = (RasSettings.top_k, RasSettings.max_rounds)
    top_k, max_rounds = _OWN_DEFAULTS.get(arguments.loop, ras)
    own["top_k"] = own["top_k"] or top_k
    own["max_rounds"] = own["max_rounds"] or max_rounds
    options = LoopOptions(**own, engine=engine_options_from(arguments))
    _check_chooser(options)
    return options


def _check_chooser(options: LoopOptions) -> None:
    if options.loop == TH_RAG and options.topic_chooser and options.traversal != "model":
        raise OptionsError(
            f"--topic-chooser {options.topic_chooser} with --traversal {options.traversal}: no "
            "model chooses then. Leave one of them out"
        )
