"""What a command line says about a loop, the same for every command that runs one."""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from dataclasses import dataclass, field, fields
from pathlib import Path

from inference.command_line import positive_int
from inference.components import DEFAULT_CHECKPOINTS, RAS_ADAPTER, T2T_ADAPTER
from inference.engine_arguments import add_engine_arguments, engine_options_from
from inference.engines.options import EngineOptions
from inference.loops.graph_evidence import KNOWLEDGE_USED, EvidenceSettings
from inference.loops.ras import RasSettings
from inference.loops.th_rag import TRAVERSALS, ThRagSettings
from inference.loops.tri_rag import TriRagSettings
from inference.loops.trig_nav import TrigNavSettings
from inference.retrieval.open_retriever import RETRIEVER_KINDS

ENGINE = "engine"
LOOPS = ("none", "single", "ras", "ras_no_planning", "ras_static", "tri_rag", "th_rag", "trig_nav")
LOOPS_OVER_TRIPLES = ("ras", "ras_no_planning", "ras_static", "trig_nav")
LOOPS_OVER_CORPUS = ("single", "ras", "ras_no_planning", "tri_rag", "trig_nav")
TH_RAG = "th_rag"
TH_RAG_OPTIONS = (
    "hierarchy",
    "traversal",
    "most_topics",
    "most_subtopics",
    "sentences",
    "passages",
    "link_weight",
)
TRIG_NAV = "trig_nav"
TRIG_NAV_HELPERS = {"gap_judge": "judge_gap", "decomposer": "decompose", "resolver": "resolve"}
"""Options of trained helpers, and the tasks that these were trained for."""
TRIG_NAV_OPTIONS = ("judge", "recall", "knowledge", *TRIG_NAV_HELPERS)


@dataclass(frozen=True)
class LoopOptions:
    """What a command line says about a loop; see `add_loop_arguments`.

    `ras` None means the untrained backbone, prompted by its chat template; so do `t2t`,
    `gap_judge`, `decomposer` and `resolver`.
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
    top_k: int = RasSettings.top_k
    max_rounds: int = RasSettings.max_rounds
    max_triples: int = RasSettings.max_triples
    max_answer_tokens: int = 100
    hierarchy: Path | None = None
    traversal: str = ThRagSettings.traversal
    most_topics: int = ThRagSettings.topics[1]
    most_subtopics: int = ThRagSettings.subtopics[1]
    sentences: int = ThRagSettings.sentences
    passages: int = ThRagSettings.passages
    link_weight: float = ThRagSettings.link_weight
    judge: bool = TrigNavSettings.judge
    recall: bool = TrigNavSettings.recall
    knowledge: str = EvidenceSettings.knowledge
    gap_judge: Path | None = None
    decomposer: Path | None = None
    resolver: Path | None = None
    engine: EngineOptions = field(default_factory=EngineOptions)


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
        type=_checkpoint,
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
        help="passages a subquery; conditions a query, tri_rag (default: %(default)s)",
    )
    add("--max-rounds", type=positive_int, help="retrievals a question (default: %(default)s)")
    add("--max-triples", type=positive_int, help="triples kept a round (default: %(default)s)")
    add(
        "--max-answer-tokens",
        type=positive_int,
        help="100 for short answers, 300 for long ones (default: %(default)s)",
    )
    _add_th_rag_arguments(parser)
    _add_trig_nav_arguments(parser)
    parser.set_defaults(**{f.name: f.default for f in fields(LoopOptions) if f.name != ENGINE})
    add_engine_arguments(parser)


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
    for option, task in TRIG_NAV_HELPERS.items():
        add(
            f"--{option.replace('_', '-')}",
            type=_checkpoint,
            metavar="CHECKPOINT",
            help=f"helper of the task {task}, or 'none' to prompt the backbone (default: none)",
        )


def options_from(arguments: Namespace) -> LoopOptions:
    """The loop's options out of a parsed command line."""
    own = {f.name: getattr(arguments, f.name) for f in fields(LoopOptions) if f.name != ENGINE}
    return LoopOptions(**own, engine=engine_options_from(arguments))


def _checkpoint(text: str) -> Path | None:
    return None if text == "none" else Path(text)
