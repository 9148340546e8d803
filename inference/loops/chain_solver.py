"""Solves a sub-question's triples in their order, with graph and text together
(Trig-Nav §3.3 and 3.4, eq. 5 to 8)."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from inference.loops.graph_evidence import EvidenceGatherer
from inference.loops.model_steps import ModelSteps
from inference.loops.question_graph import QuestionGraph, name_key
from inference.loops.trace import Trace, TraceStep
from inference.loops.triple_chains import Knowledge, classify, in_solving_order, unknowns
from inference.retrieval.passages import Passage
from models.formats.decomposer import decompose_prompt
from models.formats.evidence_answer import evidence_answer_prompt, is_insufficient
from models.formats.prompts import passage_text
from models.formats.query_triplets import (
    ANONYMOUS,
    QueryTriplet,
    format_query_triplet,
    is_placeholder,
    parse_query_triplets,
    resolve,
)
from models.formats.resolver import parse_resolution, resolve_prompt
from models.formats.subquestions import DECOMPOSE_INSTRUCTION, RESOLVE_INSTRUCTION, SubAnswer
from models.formats.triples import Triple
from models.triple_selection import select_triples

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
    """What came of a sub-question; `answer` is None where nothing was found."""

    answer: SubAnswer | None = None
    steps: list[TraceStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Asked:
    """What all triples of a sub-question are solved with."""

    text: str
    graph: QuestionGraph
    trace: Trace
    chain: SolvedChain


class ChainSolver:
    """Solves many sub-questions at once; those of one question share its graph."""

    def __init__(
        self,
        steps: ModelSteps,
        evidence: EvidenceGatherer,
        max_answer_tokens: int = 100,
        reads_facts: bool = False,
    ) -> None:
        """How a sub-question is answered for which no triples could be read: by the backbone in at
        most `max_answer_tokens`, or where a component `reads_facts`, by its passages' triples.
        """
        self.steps = steps
        self.evidence = evidence
        self.max_answer_tokens = max_answer_tokens
        self.reads_facts = reads_facts

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
        """The sub-question's triples; none where the model wrote none that is open."""
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
        if self.reads_facts:
            found = await self.evidence.triples_of(passages, asked.trace)
            triples = [triple for own in found for triple in own]
            chosen = select_triples(asked.text, asked.trace.question, triples, MOST_TRIPLES)
            return SubAnswer(asked.text, tuple(chosen)) if chosen else None
        evidence = "\n".join(passage_text(passage.title, passage.text) for passage in passages)
        prompt = evidence_answer_prompt(asked.text, evidence)
        answer = await self.steps.ask("answer", "", prompt, asked.trace, self.max_answer_tokens)
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
            solved = await asyncio.gather(*(self._solve_group(group, asked) for group in groups))
            for group, wholes in zip(groups, solved, strict=True):
                tried.update(group)
                for triplet, whole in zip(group, wholes, strict=True):
                    if whole is not None:
                        filled.add(whole)
                        current = resolve(current, triplet, whole)
        facts = [t for t in current if t in filled or (not t.placeholders and asked.graph.holds(t))]
        unsolved = [format_query_triplet(t) for t in current if t not in facts]
        asked.chain.notes += [f"not solved: {triplet}" for triplet in unsolved]
        return [Triple(*triplet.fields) for triplet in dict.fromkeys(facts)]

    async def _solve_group(
        self, group: Sequence[QueryTriplet], asked: _Asked
    ) -> list[QueryTriplet | None]:
        """Each triple as the evidence fills it (eq. 8); those of a group agree on their unknown."""
        evidence = await self.evidence.gather(
            group, asked.text, asked.graph, asked.trace, asked.chain.notes
        )
        query = " / ".join(triplet.proposition for triplet in group)
        step = TraceStep(query, evidence.passages, evidence.facts)
        asked.chain.steps.append(step)
        if not evidence.context:
            return [None for _ in group]
        written = await asyncio.gather(
            *(
                self.steps.ask(
                    "resolve",
                    RESOLVE_INSTRUCTION,
                    resolve_prompt(triplet, evidence.context),
                    asked.trace,
                    RESOLVE_TOKENS,
                )
                for triplet in group
            )
        )
        step.decision = "; ".join(text.strip() for text in written)
        wholes = [_whole(text, t) for text, t in zip(written, group, strict=True)]
        return wholes if len(group) == 1 else _agreeing(wholes, group, asked.chain.notes)


def ready_groups(
    triplets: Sequence[QueryTriplet], tried: Collection[QueryTriplet], together: bool
) -> list[list[QueryTriplet]]:
    """Triples with one unknown that were not tried as they are, to be solved at once.

    Of several with the same `?name` one is taken, whose answer the others then have, or with
    `together` all of them as one group.
    """
    groups: dict[object, list[QueryTriplet]] = {}
    for place, triplet in enumerate(triplets):
        names = unknowns(triplet)
        if len(names) == 1 and triplet not in tried and triplet.proposition:
            key: object = place if names[0] == ANONYMOUS else names[0]
            groups.setdefault(key, []).append(triplet)
    return [group if together else group[:1] for group in groups.values()]


def _whole(text: str, triplet: QueryTriplet) -> QueryTriplet | None:
    """The triple as the model filled it; None where it did not, or with a word for nothing."""
    filled = parse_resolution(text, triplet)
    if filled is None or filled.placeholders or _value(filled, triplet).casefold() in _NO_VALUES:
        return None
    return filled


def _value(filled: QueryTriplet, triplet: QueryTriplet) -> str:
    pairs = zip(triplet.fields, filled.fields, strict=True)
    return next(value for field_, value in pairs if is_placeholder(field_))


def _agreeing(
    wholes: Sequence[QueryTriplet | None], group: Sequence[QueryTriplet], notes: list[str]
) -> list[QueryTriplet | None]:
    """Those that found what most of them found; of as many votes, the first."""
    keys = [w and name_key(_value(w, t)) for w, t in zip(wholes, group, strict=True)]
    votes = Counter(key for key in keys if key)
    if not votes:
        return list(wholes)
    [(chosen, _)] = votes.most_common(1)
    if len(votes) > 1:
        notes.append(f"{len(votes)} answers for one unknown, {chosen!r} taken")
    return [w if key == chosen else None for w, key in zip(wholes, keys, strict=True)]
