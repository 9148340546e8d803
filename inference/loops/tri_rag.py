"""Tri-RAG: retrieve by condition, answer from full triplets in a budget (Tri-RAG §III-D)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from inference.engines.contract import Engine, Sampling
from inference.indexes.knowledge_base.store import KnowledgeBase, KnowledgeBaseError
from inference.loops.kind import (
    Evidence,
    EvidenceOption,
    LoopKind,
    LoopOptions,
    LoopParts,
    Option,
    OptionsError,
)
from inference.loops.model import GraphReader, search, user_request, write_answer
from inference.loops.ras import as_history
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.corpus import passages_by_id
from inference.retrieval.passages import Passage
from models.formats.conditions import (
    ConditionTriplet,
    fact_of,
    format_condition,
    format_conditions,
)
from models.formats.planning import History
from models.formats.records import QuestionRecord

INSTRUCTION = (
    "Answer the question with the help of the evidence. Each line holds a condition [C], its proof "
    "[P] and its conclusion [R]. Give only the answer, a name, a date or yes or no, without a "
    "sentence around it."
)
FindSource = Callable[[str], Passage]


@dataclass(frozen=True)
class ShownTriplets:
    """The triplets that fit, as they were cut, and what was cut of them.

    cut_proofs: proofs shortened or taken out. left_out: triplets that did not fit at all.
    cut_conclusion: whether even the first triplet alone had to lose the end of its conclusion.
    """

    triplets: tuple[ConditionTriplet, ...]
    cut_proofs: int = 0
    left_out: int = 0
    cut_conclusion: bool = False

    @property
    def is_whole(self) -> bool:
        """Return whether nothing was cut."""
        return not (self.cut_proofs or self.left_out or self.cut_conclusion)

    @property
    def text(self) -> str:
        """The block, one triplet a line."""
        return format_conditions(self.triplets)


def fit_evidence(
    triplets: Sequence[ConditionTriplet], budget: int, count_tokens: Callable[[str], int]
) -> ShownTriplets:
    """Fit triplets, best first, into a budget of the generator's tokens.

    Proofs go first, those of the last triplets before those of the first, and the one at the edge
    keeps as many of its words as fit. Then whole triplets go, from the end. Tags and field borders
    always stay; of a first triplet that is too long alone, the conclusion's end goes.
    """

    def fits(chosen: Sequence[ConditionTriplet]) -> bool:
        return count_tokens(format_conditions(chosen)) <= budget

    kept = list(triplets)
    if not kept or fits(kept):
        return ShownTriplets(tuple(kept))
    cut = 0
    for place in reversed(range(len(kept))):
        if kept[place].proof:
            cut += 1
            whole = kept[place]
            kept[place] = replace(whole, proof="")
            if fits(kept):
                kept[place] = _longest_proof(kept, place, whole.proof, fits)
                return ShownTriplets(tuple(kept), cut)
    while len(kept) > 1 and not fits(kept):
        kept.pop()
    too_long = not fits(kept)
    if too_long:
        kept = [_shortest_conclusion(kept[0], fits)]
    return ShownTriplets(tuple(kept), cut, len(triplets) - len(kept), too_long)


def _longest_proof(
    kept: list[ConditionTriplet],
    place: int,
    proof: str,
    fits: Callable[[Sequence[ConditionTriplet]], bool],
) -> ConditionTriplet:
    """Return the triplet at `place` with as many of its proof's first words as fit."""
    words = proof.split()
    low, high = 0, len(words)
    while high - low > 1:
        middle = (low + high) // 2
        trial = replace(kept[place], proof=" ".join(words[:middle]))
        if fits([*kept[:place], trial, *kept[place + 1 :]]):
            low = middle
        else:
            high = middle
    return replace(kept[place], proof=" ".join(words[:low]))


def _shortest_conclusion(
    triplet: ConditionTriplet, fits: Callable[[Sequence[ConditionTriplet]], bool]
) -> ConditionTriplet:
    """Return the triplet with the end of its conclusion cut; one word stays whatever the budget."""
    words = triplet.conclusion.split()
    while len(words) > 1 and not fits([replace(triplet, conclusion=" ".join(words))]):
        words.pop()
    return replace(triplet, conclusion=" ".join(words))


@dataclass(frozen=True)
class TriRagSettings:
    """Settings of Tri-RAG's retrieval and answers.

    top_k: conditions a query (k). selected: triplets a query that reach the generator (m).
    budget: tokens of the evidence block (B), by the generator's tokenizer. max_rounds: queries a
    question; 1 is Algorithm 2, more ask the planner for the next condition (§IV-F). evidence: what
    a RAS component reads of a triplet, its claim as a fact or the whole of it (eq. 8).
    """

    top_k: int = 10
    selected: int = 5
    budget: int = 512
    max_rounds: int = 1
    max_answer_tokens: int = 100
    evidence: Evidence = "facts"


def evidence_prompt(question: str, evidence: str) -> str:
    """Return the generator's input [Q; C] (eq. 16)."""
    return f"{INSTRUCTION}\n\n{evidence}\n\nQuestion: {question}"


class TriRagLoop:
    """Answers from a knowledge base of condition triplets.

    With a `reader` (a RAS component) triplets are read as facts or as they are, and it plans the
    next query and answers; without one, the engine's backbone answers from the evidence block.
    """

    def __init__(
        self,
        engine: Engine,
        base: KnowledgeBase,
        settings: TriRagSettings,
        reader: GraphReader | None = None,
        find_source: FindSource | None = None,
    ) -> None:
        """find_source: gives a source document by its id, for traces; None leaves them out."""
        self.engine = engine
        self.base = base
        self.settings = settings
        self.reader = reader
        self.find_source = find_source

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Retrieve with the question, or hop by hop as the planner asks, then answer."""
        trace = trace or Trace(record.question)
        triplets: list[ConditionTriplet] = []
        known: set[ConditionTriplet] = set()
        query = record.question
        while query:
            found, sources = await self._retrieve(query, trace, known)
            triplets.extend(found)
            step = TraceStep(query, sources, [fact_of(triplet) for triplet in found])
            if self._reads_blocks:
                step.texts = [format_condition(triplet) for triplet in found]
            trace.steps.append(step)
            query = await self._next_query(trace)
        if self.reader is not None:
            trace.answer = await self.reader.answer(self._history(trace), trace)
        else:
            trace.answer = await self._generate(trace, triplets)
        return trace

    @property
    def _reads_blocks(self) -> bool:
        return self.settings.evidence == "full" and self.reader is not None

    def _history(self, trace: Trace) -> History:
        return as_history(trace, triples=not self._reads_blocks)

    async def _retrieve(
        self, query: str, trace: Trace, known: set[ConditionTriplet]
    ) -> tuple[list[ConditionTriplet], list[Passage]]:
        """Return best m triplets that are new, within the budget, and the documents behind them.

        known: those of earlier rounds as the base has them, not as they were cut; gets the new.
        """
        [hits] = await search(trace, self.base.search, [query], self.settings.top_k)
        fresh = [
            (triplet, claim.sources)
            for hit in hits
            for triplet, claim in zip(hit.entry.triplets, hit.entry.claims, strict=True)
            if triplet not in known
        ][: self.settings.selected]
        chosen = [triplet for triplet, _ in fresh]
        evidence = fit_evidence(chosen, self.settings.budget, self.engine.count_tokens)
        if not evidence.is_whole:
            trace.notes.append(
                f"evidence budget of {self.settings.budget} tokens: {evidence.cut_proofs} proofs "
                f"cut, {evidence.left_out} triplets left out"
            )
        # Those that did not fit at all, which stand last, may be found again.
        known.update(chosen[: len(evidence.triplets)])
        ids = dict.fromkeys(source for _, sources in fresh for source in sources)
        found = self.find_source
        return list(evidence.triplets), [found(name) for name in ids] if found else []

    async def _next_query(self, trace: Trace) -> str:
        """Return planner's next query; '' where it has enough, repeats itself, or nobody plans."""
        if self.reader is None or len(trace.steps) >= self.settings.max_rounds:
            return ""
        plan = await self.reader.plan(self._history(trace), trace)
        subquery = plan.subquery if plan is not None else ""
        return "" if trace.has_asked(subquery) else subquery

    async def _generate(self, trace: Trace, triplets: list[ConditionTriplet]) -> str:
        evidence = fit_evidence(triplets, self.settings.budget, self.engine.count_tokens)
        content = evidence_prompt(trace.question, evidence.text)
        request = user_request(content, Sampling(max_new_tokens=self.settings.max_answer_tokens))
        return await write_answer(self.engine, request, trace)


@dataclass(frozen=True)
class TriRagOptions(LoopOptions):
    """Options of Tri-RAG. Raises OptionsError under its paper's preset for m above k."""

    loop: str = "tri_rag"
    kb: Annotated[Path | None, Option("knowledge base of build_kb.py, for tri_rag", "DIR")] = None
    selected: Annotated[int, Option("triplets a query, tri_rag")] = TriRagSettings.selected
    evidence_budget: Annotated[int, Option("tokens of the evidence block, tri_rag")] = (
        TriRagSettings.budget
    )
    evidence: EvidenceOption = TriRagSettings.evidence

    def __post_init__(self) -> None:
        if self.preset == "paper" and self.selected > self.top_k:
            raise OptionsError(
                f"--selected {self.selected} with --top-k {self.top_k}: the paper selects m of k "
                "conditions, m <= k (Algorithm 2). Give fewer, or --preset tuned"
            )


def _knowledge_base(options: TriRagOptions) -> Path:
    if options.kb is None:
        raise KnowledgeBaseError(
            "--loop tri_rag answers from a knowledge base: name it with --kb, after "
            "inference/build_kb.py has made it"
        )
    return options.kb


def open_tri_rag(parts: LoopParts[TriRagOptions]) -> TriRagLoop:
    """Open Tri-RAG over the knowledge base that the options name.

    Raises KnowledgeBaseError, also for a corpus that lacks a document of the knowledge base.
    """
    options = parts.options
    folder = _knowledge_base(options)
    base = KnowledgeBase.load(folder, parts.encoder(), options.index)
    documents = passages_by_id(parts.corpus)
    unknown = [s for entry in base.entries for s in entry.sources if s not in documents]
    if unknown:
        raise KnowledgeBaseError(
            f"{folder} holds document '{unknown[0]}', which the corpus does not: name the "
            "corpus that it was built from"
        )
    settings = TriRagSettings(
        options.top_k,
        options.selected,
        options.evidence_budget,
        options.max_rounds,
        options.max_answer_tokens,
        options.evidence,
    )
    return TriRagLoop(parts.engine, base, settings, parts.ras_reader, documents.__getitem__)


TRI_RAG = LoopKind(
    "tri_rag",
    TriRagOptions,
    open_tri_rag,
    index="kb",
    check=_knowledge_base,
    # Algorithm 2 retrieves once. k, m and B have no number in the paper: m <= k.
    paper={
        "max_rounds": 1,
        "top_k": 5,
        "selected": 5,
        "evidence": "full",
        "derive_comparisons": False,
    },
)
