"""All loops by their names; a new one is declared in a file of its own and listed here."""

from typing import Any

from common.names import nearest
from inference.loops.baselines import IRCOT, NONE, REACT, SELF_ASK, SINGLE
from inference.loops.kind import LoopKind, OptionsError
from inference.loops.ras import RAS, RAS_NO_PLANNING, RAS_STATIC
from inference.loops.t2rag import T2RAG
from inference.loops.th_rag import TH_RAG
from inference.loops.tri_rag import TRI_RAG
from inference.loops.trig_nav import TRIG_NAV

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
