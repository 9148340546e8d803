"""The options of loops on a command line, the same for every command that runs one."""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from dataclasses import dataclass, field, fields
from pathlib import Path

from inference.engines.contract import EngineOptions
from inference.loops.graph_evidence import KNOWLEDGE_USED, EvidenceSettings
from inference.loops.model import PassageSettings
from inference.loops.ras import RasSettings
from inference.loops.t2rag import T2RagSettings
from inference.loops.th_rag import TRAVERSALS, ThRagSettings
from inference.loops.tri_rag import TriRagSettings
from inference.loops.trig_nav import TrigNavSettings
from inference.opening.arguments import (
    OptionsError,
    add_engine_arguments,
    engine_options_from,
    positive_int,
)
from inference.opening.components import DEFAULT_CHECKPOINTS, RAS_ADAPTER, T2T_ADAPTER
from inference.retrieval.open_retriever import RETRIEVER_KINDS
from models.formats.records import HelperTask

T2RAG = "t2rag"
TH_RAG = "th_rag"
TRIG_NAV = "trig_nav"
GRANULARITIES = ("proposition", "passage")
HELPERS: dict[str, HelperTask] = {
    "gap_judge": "judge_gap",
    "decomposer": "decompose",
    "resolver": "resolve",
    "topic_chooser": "choose_topics",
}
"""Options of trained helpers, and the tasks that these were trained for."""
OWN_OPTIONS = {
    T2RAG: ("propositions", "decomposer", "resolver", "granularity", "without_passages"),
    TH_RAG: (
        "hierarchy",
        "traversal",
        "topic_chooser",
        "most_topics",
        "most_subtopics",
        "sentences",
        "passages",
        "link_weight",
        "name_weight",
    ),
    TRIG_NAV: ("judge", "recall", "knowledge", "gap_judge", "decomposer", "resolver"),
}
"""Options that no loop outside this table has."""


def checkpoint_or_none(text: str) -> Path | None:
    """An argparse type for a folder, or 'none'."""
    return None if text == "none" else Path(text)


def helpers_of(loop: str) -> dict[str, HelperTask]:
    """The helpers that a loop can use: their tasks by their options."""
    own = OWN_OPTIONS.get(loop, ())
    return {option: task for option, task in HELPERS.items() if option in own}


def add_loop_groups(parser: ArgumentParser) -> None:
    """Add the options of `OWN_OPTIONS`, without defaults."""
    _add_helper_arguments(parser)
    _add_t2rag_arguments(parser)
    _add_th_rag_arguments(parser)
    _add_trig_nav_arguments(parser)


def _add_helper_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("trained helpers").add_argument
    for option, task in HELPERS.items():
        loops = " and ".join(loop for loop in OWN_OPTIONS if option in helpers_of(loop))
        add(
            f"--{option.replace('_', '-')}",
            type=checkpoint_or_none,
            metavar="CHECKPOINT",
            help=f"helper of the task {task}, {loops}, or 'none' to prompt the backbone "
            "(default: none)",
        )


def _add_t2rag_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument_group(T2RAG).add_argument
    add("--propositions", type=Path, metavar="DIR", help="index of build_propositions.py")
    add(
        "--granularity",
        choices=GRANULARITIES,
        help="what is searched; passages, by --retriever, are an ablation (default: %(default)s)",
    )
    add(
        "--without-passages",
        action="store_true",
        help="resolve from propositions alone, an ablation",
    )


def _add_th_rag_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument_group(TH_RAG).add_argument
    add("--hierarchy", type=Path, metavar="DIR", help="hierarchy of build_hierarchy.py")
    add(
        "--traversal",
        choices=TRAVERSALS,
        help="who chooses topics: the model, the nearest by embedding without a call, or none to "
        "search all sentences (default: %(default)s)",
    )
    add("--most-topics", type=positive_int, help="chosen a question (default: %(default)s)")
    add("--most-subtopics", type=positive_int, help="chosen a topic (default: %(default)s)")
    add("--sentences", type=positive_int, help="evidence sentences, K1 (default: %(default)s)")
    add("--passages", type=positive_int, help="passages around them, K2 (default: %(default)s)")
    add(
        "--link-weight",
        type=float,
        help="pull of a sentence towards a better one about the same entity, from 0 (the paper's) "
        "to below 1 (default: %(default)s)",
    )
    add(
        "--name-weight",
        type=float,
        help="what a sentence gains that is about an entity which the question names; 0 is the "
        "paper's (default: %(default)s)",
    )


def _add_trig_nav_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument_group(TRIG_NAV).add_argument
    add(
        "--judge",
        action=BooleanOptionalAction,
        help="judge what is missing; without, every question is decomposed (default: yes)",
    )
    add(
        "--recall",
        action=BooleanOptionalAction,
        help="ask the model first what it knows (default: yes)",
    )
    add(
        "--knowledge",
        choices=KNOWLEDGE_USED,
        help="what triples are solved from, graph and text or one of them (default: %(default)s)",
    )


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
