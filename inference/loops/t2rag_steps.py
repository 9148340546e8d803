"""T²RAG's steps by a model: prompted as in the paper, or by trained helpers (T²RAG §4.3, App.
F).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.engines.contract import Engine, Request
from inference.indexes.propositions.index import proposition_text
from inference.indexes.propositions.search import Found
from inference.loops.model import chat_request, generate
from inference.loops.trace import Trace
from models.formats.clues import (
    ResolutionInput,
    parse_clues,
    prompted_decomposition,
    prompted_resolution,
)
from models.formats.conditions import claim
from models.formats.helpers import decompose_prompt, parse_resolution, resolve_prompt
from models.formats.prompts import passage_text
from models.formats.query_triplets import (
    QueryTriplet,
    TripletState,
    parse_query_triplets,
)

MAX_DECOMPOSITION_TOKENS = 512
MAX_RESOLUTION_TOKENS = 512
MakeRequest = Callable[[str], Request]


@dataclass(frozen=True)
class OpenQuestion:
    """A question between two rounds: its triplets, and what the last retrieval found."""

    question: str
    triplets: Sequence[QueryTriplet]
    found: Found

    def in_state(self, state: TripletState) -> list[QueryTriplet]:
        """Return the triplets in this state."""
        return [triplet for triplet in self.triplets if triplet.state is state]


class Resolver(Protocol):
    """Fills open triplets from what was retrieved."""

    async def resolve(self, state: OpenQuestion, trace: Trace) -> list[QueryTriplet]:
        """Clues, filled in part or whole, in any order; may be none, or about anything.

        The step that the trace holds last gets the model's text as its decision.
        """
        ...


class Decomposer:
    """Turns a question into query triplets with one call."""

    def __init__(self, engine: Engine, make_request: MakeRequest | None = None) -> None:
        """make_request: of a trained helper; None prompts the backbone."""
        self.engine = engine
        self.make_request = make_request

    async def decompose(self, question: str, trace: Trace) -> list[QueryTriplet]:
        """Return the question's triplets, each once; none where the model wrote none."""
        if self.make_request is not None:
            request = self.make_request(decompose_prompt(question))
        else:
            request = chat_request(prompted_decomposition(question), MAX_DECOMPOSITION_TOKENS)
        [text] = await generate(self.engine, [request], "decompose", trace)
        parsed = parse_query_triplets(text)
        if parsed.malformed:
            trace.notes.append(f"decomposition: {parsed.malformed} lines are no triplet")
        return list(dict.fromkeys(parsed.triplets))


class PromptedResolver:
    """Resolves all clues of a round in one call (App. F, Triples Resolving)."""

    def __init__(self, engine: Engine, show_passages: bool = True) -> None:
        self.engine = engine
        self.show_passages = show_passages

    async def resolve(self, state: OpenQuestion, trace: Trace) -> list[QueryTriplet]:
        """Return what the model wrote, whole clues alone; the others are noted."""
        given = ResolutionInput(
            state.question,
            state.in_state(TripletState.SEARCHABLE),
            state.in_state(TripletState.FUZZY),
            state.in_state(TripletState.RESOLVED),
            [proposition_text(fact) for fact in state.found.facts],
            _texts(state.found) if self.show_passages else [],
        )
        request = chat_request(prompted_resolution(given), MAX_RESOLUTION_TOKENS)
        [text] = await generate(self.engine, [request], "resolve", trace)
        trace.steps[-1].decision = text
        parsed = parse_clues(text)
        if parsed.malformed:
            trace.notes.append(
                f"round {len(trace.steps)}: {parsed.malformed} pieces of the resolution are no clue"
            )
        return parsed.triplets


class HelperResolver:
    """Resolves each searchable triplet with a call of its own to a trained helper."""

    def __init__(
        self, engine: Engine, make_request: MakeRequest, show_passages: bool = True
    ) -> None:
        """show_passages: False shows the propositions in their place, as sentences."""
        self.engine = engine
        self.make_request = make_request
        self.show_passages = show_passages

    async def resolve(self, state: OpenQuestion, trace: Trace) -> list[QueryTriplet]:
        """Return the triplets that the helper filled; all calls are made at once.

        Fuzzy ones, which it was not trained on, are asked where nothing is searchable.
        """
        searchable = state.in_state(TripletState.SEARCHABLE)
        asked = searchable or state.in_state(TripletState.FUZZY)
        found = state.found
        shown = _texts(found) if self.show_passages else [claim(fact) for fact in found.facts]
        requests = [self.make_request(resolve_prompt(triplet, shown)) for triplet in asked]
        texts = await generate(self.engine, requests, "resolve", trace)
        trace.steps[-1].decision = "\n".join(texts)
        filled = [
            parse_resolution(text, triplet) for triplet, text in zip(asked, texts, strict=True)
        ]
        return [triplet for triplet in filled if triplet is not None]


def _texts(found: Found) -> list[str]:
    return [passage_text(passage.title, passage.text) for passage in found.passages]
