"""T²RAG's steps: a model decomposes and resolves, and what it wrote is settled (§4.3, App. F)."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from inference.engines.contract import Engine
from inference.indexes.propositions.index import Found, proposition_text
from inference.loops.model import PromptRequest, chat_request, generate
from inference.loops.trace import Trace
from models.formats.clues import (
    ResolutionInput,
    parse_clues,
    prompted_answer,
    prompted_decomposition,
    prompted_resolution,
)
from models.formats.conditions import claim, relation_words
from models.formats.helpers import decompose_prompt, parse_resolution, resolve_prompt
from models.formats.paper_prompts import (
    Prompts,
    paper_answer,
    paper_decomposition,
    paper_resolution,
)
from models.formats.prompts import passage_text
from models.formats.query_triplets import (
    ANONYMOUS,
    QueryTriplet,
    TripletState,
    bind,
    filled_in,
    format_query_triplet,
    is_placeholder,
    parse_query_triplets,
)

MAX_DECOMPOSITION_TOKENS = 512
MAX_RESOLUTION_TOKENS = 512
_NO_VALUE = re.compile(
    r"\W*(?:unknown|unspecified|undisclosed|none|nothing|null|nil|n/?a|tbd|unresolved"
    r"|not (?:\w+ )?(?:specified|mentioned|stated|given|known|available|provided|found)(?: .*)?"
    r"|no (?:information|data|mention)(?: .*)?)\W*",
    re.IGNORECASE,
)
_SMALL_WORDS = frozenset(
    re.findall(r"\w+", "a an and at by did do for from has have in is it of on or the to was")
)
RESOLVED, SEARCHABLE, FUZZY = (
    TripletState.RESOLVED,
    TripletState.SEARCHABLE,
    TripletState.FUZZY,
)


@dataclass(frozen=True)
class OpenQuestion:
    """A question between two rounds: its triplets, and what the last retrieval found."""

    question: str
    triplets: Sequence[QueryTriplet]
    found: Found


def in_state(triplets: Iterable[QueryTriplet], *states: TripletState) -> list[QueryTriplet]:
    """Return the triplets in one of these states, in their order."""
    return [triplet for triplet in triplets if triplet.state in states]


class Resolver(Protocol):
    """Fills open triplets from what was retrieved."""

    async def resolve(self, state: OpenQuestion, trace: Trace) -> list[QueryTriplet]:
        """Clues, filled in part or whole, in any order; may be none, or about anything.

        The step that the trace holds last gets the model's text as its decision.
        """
        ...


@dataclass(frozen=True)
class CluePrompts:
    """The prompts of the three steps for a backbone: LLM_Decompose, LLM_Resolve, LLM_Answer."""

    decomposition: Callable[[str], str] = prompted_decomposition
    resolution: Callable[[ResolutionInput], str] = prompted_resolution
    answer: Callable[[str, Iterable[QueryTriplet]], str] = prompted_answer


OWN_PROMPTS = CluePrompts()
CLUE_PROMPTS: dict[Prompts, CluePrompts] = {
    "own": OWN_PROMPTS,
    "paper": CluePrompts(paper_decomposition, paper_resolution, paper_answer),
}


class Decomposer:
    """Turns a question into query triplets with one call."""

    def __init__(
        self,
        engine: Engine,
        make_request: PromptRequest | None = None,
        prompts: CluePrompts = OWN_PROMPTS,
    ) -> None:
        """make_request: of a trained helper; None prompts the backbone."""
        self.engine = engine
        self.make_request = make_request
        self.prompts = prompts

    async def decompose(self, question: str, trace: Trace) -> list[QueryTriplet]:
        """Return the question's triplets, each once; none where the model wrote none."""
        if self.make_request is not None:
            request = self.make_request(decompose_prompt(question))
        else:
            prompt = self.prompts.decomposition(question)
            request = chat_request(prompt, MAX_DECOMPOSITION_TOKENS)
        [text] = await generate(self.engine, [request], "decompose", trace)
        parsed = parse_query_triplets(text)
        if parsed.malformed:
            trace.notes.append(f"decomposition: {parsed.malformed} lines are no triplet")
        return list(dict.fromkeys(parsed.triplets))


class PromptedResolver:
    """Resolves all clues of a round in one call (App. F, Triples Resolving)."""

    def __init__(
        self, engine: Engine, show_passages: bool = True, prompts: CluePrompts = OWN_PROMPTS
    ) -> None:
        self.engine = engine
        self.show_passages = show_passages
        self.prompts = prompts

    async def resolve(self, state: OpenQuestion, trace: Trace) -> list[QueryTriplet]:
        """Return what the model wrote, whole clues alone; the others are noted."""
        given = ResolutionInput(
            state.question,
            in_state(state.triplets, SEARCHABLE),
            in_state(state.triplets, FUZZY),
            in_state(state.triplets, RESOLVED),
            [proposition_text(fact) for fact in state.found.facts],
            _texts(state.found) if self.show_passages else [],
        )
        request = chat_request(self.prompts.resolution(given), MAX_RESOLUTION_TOKENS)
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
        self, engine: Engine, make_request: PromptRequest, show_passages: bool = True
    ) -> None:
        """show_passages: False shows the propositions in their place, as sentences."""
        self.engine = engine
        self.make_request = make_request
        self.show_passages = show_passages

    async def resolve(self, state: OpenQuestion, trace: Trace) -> list[QueryTriplet]:
        """Return the triplets that the helper filled; all calls are made at once.

        Fuzzy ones, which it was not trained on, are asked where nothing is searchable.
        """
        searchable = in_state(state.triplets, SEARCHABLE)
        asked = searchable or in_state(state.triplets, FUZZY)
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


@dataclass(frozen=True)
class Settled:
    """Triplets after a round.

    notes: of placeholders that were found to be two things, and of triplets that are resolved by
    what was found for others alone, so that nothing was read that states them.
    """

    triplets: list[QueryTriplet]
    notes: list[str] = field(default_factory=list)


def settle(triplets: Sequence[QueryTriplet], written: Iterable[QueryTriplet]) -> Settled:
    """Return what a model wrote put in the place of the open triplets that it fills.

    What is found for `?name` is put into every triplet that holds it. A triplet that the model did
    not write about stays as it was; what fills no open triplet is passed over, and so is a value
    that says that there is none ("unknown"). Where the model found two values for one `?name`, the
    two triplets keep a value each, and the others take the first.
    """
    filled = _assigned(triplets, list(written))
    values: dict[str, str] = {}
    notes = []
    for place, result in sorted(filled.items()):
        for name, value in zip(triplets[place].fields, result.fields, strict=True):
            if name in (value, ANONYMOUS):
                continue
            first = values.setdefault(name.strip(), value)
            if first.casefold() != value.casefold():
                notes.append(f"{name} was found to be {first!r} and {value!r}: two things")
    after = bind((filled.get(place, triplet) for place, triplet in enumerate(triplets)), values)
    notes += [
        f"not read but inferred: {format_query_triplet(result)}"
        for place, result in enumerate(after)
        if place not in filled and result != triplets[place] and not result.placeholders
    ]
    return Settled(list(dict.fromkeys(after)), notes)


def _assigned(
    triplets: Sequence[QueryTriplet], written: Sequence[QueryTriplet]
) -> dict[int, QueryTriplet]:
    """For the places of open triplets, what they become; each clue fills one triplet at most.

    The closest predicates are matched first. A predicate in wholly other words is taken where the
    triplet's subject or object is known and nothing else is left for it.
    """
    pairs = []
    for number, clue in enumerate(written):
        for place, triplet in enumerate(triplets):
            result = filled_in(triplet, clue) if triplet.placeholders else None
            if result is None or not _says_something(triplet, result):
                continue
            closeness = _closeness(triplet.predicate, clue.predicate)
            all_open = is_placeholder(triplet.subject) and is_placeholder(triplet.object)
            if closeness or not all_open:
                left_open = len(result.placeholders)
                pairs.append((-closeness, left_open, number, place, result))
    taken: dict[int, QueryTriplet] = {}
    used: set[int] = set()
    for _, _, number, place, result in sorted(pairs, key=lambda pair: pair[:4]):
        if place not in taken and number not in used:
            taken[place] = result
            used.add(number)
    return taken


def _closeness(asked: str, written: str) -> int:
    """2: the same relation, or any is asked for; 1: a word in common; 0: other words."""
    one, other = relation_words(asked), relation_words(written)
    if is_placeholder(asked) or one == other:
        return 2
    return int(bool((set(one.split()) & set(other.split())) - _SMALL_WORDS))


def _says_something(triplet: QueryTriplet, result: QueryTriplet) -> bool:
    pairs = zip(triplet.fields, result.fields, strict=True)
    return not any(_NO_VALUE.fullmatch(value) for field, value in pairs if field != value)
