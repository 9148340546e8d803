"""The triples of a sub-question in their order, solved with graph and text together."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from common.concurrency import at_once
from inference.loops.graph_evidence import EvidenceGatherer, QuestionGraph, name_key
from inference.loops.model import ModelSteps
from inference.loops.solving_order import (
    Knowledge,
    classify,
    in_solving_order,
    ready_groups,
    unknowns,
)
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Passage
from models.facts.triple_selection import select_triples
from models.formats.helpers import decompose_prompt, parse_resolution, resolve_prompt
from models.formats.prompts import evidence_answer_prompt, is_insufficient, passage_text
from models.formats.query_triplets import (
    QueryTriplet,
    bind,
    format_query_triplet,
    is_placeholder,
    parse_query_triplets,
    resolve,
)
from models.formats.subquestions import DECOMPOSE_INSTRUCTION, RESOLVE_INSTRUCTION, SubAnswer
from models.formats.triples import Triple

DECOMPOSE_TOKENS = 256
RESOLVE_TOKENS = 128
MOST_TRIPLES = 8
_NO_VALUES = frozenset({"unknown", "nothing", "none", "n/a", "not specified", "not mentioned"})


@dataclass(frozen=True)
class SubQuestion:
    """A question of its own, and its triples where they are known already."""

    text: str
    triplets: tuple[QueryTriplet, ...] = ()


@dataclass
class SolvedChain:
    """The outcome of a sub-question; `answer` is None where nothing was found."""

    answer: SubAnswer | None = None
    steps: list[TraceStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Asked:
    """The state that all triples of a sub-question are solved with."""

    text: str
    graph: QuestionGraph
    trace: Trace
    chain: SolvedChain


@dataclass(frozen=True)
class ChainSettings:
    """How sub-questions are solved.

    One without triples is answered by the backbone from its passages, in at most
    `max_answer_tokens`, or where a component `reads_facts` by their triples. decompose: False maps
    no sub-question to triples. multi_link: False puts nothing that was found into other triples.
    """

    max_answer_tokens: int = 100
    reads_facts: bool = False
    decompose: bool = True
    multi_link: bool = True


class ChainSolver:
    """Solves many sub-questions at once."""

    def __init__(
        self, steps: ModelSteps, evidence: EvidenceGatherer, settings: ChainSettings
    ) -> None:
        self.steps = steps
        self.evidence = evidence
        self.settings = settings

    async def solve(
        self, subquestion: SubQuestion, graph: QuestionGraph, trace: Trace
    ) -> SolvedChain:
        """Retrieve for a sub-question, map it to triples, and solve these in their order.

        The chain's steps and notes are not the trace's yet: sub-questions are solved at once.
        """
        chain = SolvedChain()
        asked = _Asked(subquestion.text, graph, trace, chain)
        [passages] = await self.evidence.retrieve([asked.text], graph, trace)
        chain.steps.append(TraceStep(asked.text, passages))
        triplets: tuple[QueryTriplet, ...] = ()
        if self.settings.decompose:
            triplets = subquestion.triplets or await self._decompose(asked)
        if not triplets:
            chain.answer = await self._answer_without_triples(asked, passages)
            return chain
        ordered = in_solving_order(triplets)
        kind = classify(ordered)
        listed = "; ".join(map(format_query_triplet, ordered))
        chain.steps[0].decision = f"{kind}: {listed}"
        facts = await self._solve_in_order(ordered, kind, asked)
        chain.answer = SubAnswer(asked.text, tuple(facts)) if facts else None
        return chain

    async def _decompose(self, asked: _Asked) -> tuple[QueryTriplet, ...]:
        """Return the sub-question's triples; none where the model wrote none that is open."""
        written = await self.steps.ask(
            "decompose",
            DECOMPOSE_INSTRUCTION,
            decompose_prompt(asked.text),
            asked.trace,
            DECOMPOSE_TOKENS,
        )
        triplets = tuple(dict.fromkeys(parse_query_triplets(written).triplets))
        if not any(triplet.placeholders for triplet in triplets):
            asked.chain.notes.append(f"no open triple for {asked.text!r}: {written!r}")
            return ()
        if len(triplets) > MOST_TRIPLES:
            left_out = len(triplets) - MOST_TRIPLES
            asked.chain.notes.append(f"{left_out} triples of {asked.text!r} left out")
        return triplets[:MOST_TRIPLES]

    async def _answer_without_triples(
        self, asked: _Asked, passages: Sequence[Passage]
    ) -> SubAnswer | None:
        """Read the answer from the passages, as without decomposition (Table 3)."""
        if self.settings.reads_facts:
            found = await self.evidence.triples_of(passages, asked.trace)
            triples = [triple for own in found for triple in own]
            chosen = select_triples(asked.text, asked.trace.question, triples, MOST_TRIPLES)
            return SubAnswer(asked.text, tuple(chosen)) if chosen else None
        evidence = "\n".join(passage_text(passage.title, passage.text) for passage in passages)
        prompt = evidence_answer_prompt(asked.text, evidence)
        tokens = self.settings.max_answer_tokens
        answer = await self.steps.ask("answer", "", prompt, asked.trace, tokens)
        return None if is_insufficient(answer) else SubAnswer(asked.text, text=answer.strip())

    async def _solve_in_order(
        self, ordered: Sequence[QueryTriplet], kind: Knowledge, asked: _Asked
    ) -> list[Triple]:
        """Solve what has one unknown, put what is found into the others, and so on (eq. 6, 7).

        What is returned was filled from evidence, or stands in the graph once it is bound.
        """
        current, tried, filled = list(ordered), set[QueryTriplet](), set[QueryTriplet]()
        together = kind is Knowledge.CAUSAL
        while groups := ready_groups(current, tried, together):
            solved = await at_once(self._solve_group(group, asked) for group in groups)
            for group, wholes in zip(groups, solved, strict=True):
                tried.update(group)
                for triplet, whole in zip(group, wholes, strict=True):
                    if whole is not None:
                        filled.add(whole)
                        current = self._put_in(current, triplet, whole)
        facts = [t for t in current if t in filled or (not t.placeholders and asked.graph.holds(t))]
        unsolved = [format_query_triplet(t) for t in current if t not in facts]
        asked.chain.notes += [f"not solved: {triplet}" for triplet in unsolved]
        return [Triple(*triplet.fields) for triplet in dict.fromkeys(facts)]

    def _put_in(
        self, current: list[QueryTriplet], triplet: QueryTriplet, whole: QueryTriplet
    ) -> list[QueryTriplet]:
        """Return the triples with what was found for one; where linked, the others have it too."""
        if self.settings.multi_link:
            return resolve(current, triplet, whole)
        return [whole if each == triplet else each for each in current]

    async def _solve_group(
        self, group: Sequence[QueryTriplet], asked: _Asked
    ) -> list[QueryTriplet | None]:
        """Return each triple as evidence fills it (eq. 8); a group's agree on their unknown."""
        step = TraceStep(" / ".join(triplet.proposition for triplet in group))
        # Before the first wait: groups are solved at once, and their steps stand in their order.
        asked.chain.steps.append(step)
        evidence = await self.evidence.gather(
            group, asked.text, asked.graph, asked.trace, asked.chain.notes
        )
        step.passages, step.triples = evidence.passages, evidence.facts
        if not evidence.context:
            return [None for _ in group]
        written = await at_once(
            self.steps.ask(
                "resolve",
                RESOLVE_INSTRUCTION,
                resolve_prompt(triplet, evidence.context),
                asked.trace,
                RESOLVE_TOKENS,
            )
            for triplet in group
        )
        step.decision = "; ".join(text.strip() for text in written)
        wholes = [_whole(text, t) for text, t in zip(written, group, strict=True)]
        return wholes if len(group) == 1 else await self._agreed(wholes, group, asked)

    async def _agreed(
        self,
        wholes: Sequence[QueryTriplet | None],
        group: Sequence[QueryTriplet],
        asked: _Asked,
    ) -> list[QueryTriplet | None]:
        """Return the triples of a group with one answer for the unknown that they share.

        Of several answers, each is looked up in all of the triples: that one is taken of which the
        graph then tells the most, of as much the one that most of them found, or the first.
        """
        values = [_value(w, t) if w else "" for w, t in zip(wholes, group, strict=True)]
        votes = Counter(name_key(value) for value in values if value)
        if len(votes) < 2:
            return list(wholes)
        named = {name_key(value): value for value in reversed(values) if value}
        [unknown] = unknowns(group[0])
        claims = {key: bind(group, {unknown: named[key]}) for key in votes}
        queries = [claim.proposition for own in claims.values() for claim in own]
        await self.evidence.retrieve(queries, asked.graph, asked.trace)
        told = {key: [asked.graph.holds(claim) for claim in own] for key, own in claims.items()}
        chosen = max(votes, key=lambda key: (sum(told[key]), votes[key]))
        asked.chain.notes.append(f"{len(votes)} answers for one unknown, {chosen!r} taken")
        return [
            claim if holds else w if value and name_key(value) == chosen else None
            for claim, holds, w, value in zip(
                claims[chosen], told[chosen], wholes, values, strict=True
            )
        ]


def _whole(text: str, triplet: QueryTriplet) -> QueryTriplet | None:
    """Return triple as the model filled it; None where it did not, or with a word for nothing."""
    filled = parse_resolution(text, triplet)
    if filled is None or filled.placeholders or _value(filled, triplet).casefold() in _NO_VALUES:
        return None
    return filled


def _value(filled: QueryTriplet, triplet: QueryTriplet) -> str:
    pairs = zip(triplet.fields, filled.fields, strict=True)
    return next(value for field_, value in pairs if is_placeholder(field_))
