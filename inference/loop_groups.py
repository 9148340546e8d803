"""What only some loops take: the names of their options, and their groups on a command line."""

from argparse import ArgumentParser, BooleanOptionalAction
from pathlib import Path

from inference.command_line import positive_int
from inference.loops.graph_evidence import KNOWLEDGE_USED
from inference.loops.th_rag import TRAVERSALS
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
