"""TH-RAG: from topics to subtopics to entities to sentences (TH-RAG §3.2 and 3.3)."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from common.concurrency import at_once
from inference.indexes.hierarchy.index import EvidenceSentence, HierarchyIndex, ScoredQuestion
from inference.indexes.hierarchy.offers import SHORTLIST, Offer, TopicOffers
from inference.indexes.hierarchy.store import HierarchyError, HierarchyStore
from inference.indexes.hierarchy.topics import INDEXER, has_topics_of_its_own
from inference.loops.kind import (
    Evidence,
    EvidenceOption,
    Helper,
    LoopKind,
    LoopOptions,
    LoopParts,
    Option,
    OptionsError,
)
from inference.loops.model import GraphReader, ModelSteps, chat_request, search, write_answer
from inference.loops.ras import as_history
from inference.loops.th_rag_steps import (
    CHOICE_STEPS,
    fit_topic_evidence,
    topic_answer_prompt,
    write_choice,
)
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Passage
from models.formats.paper_prompts import Prompts
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord
from models.formats.topics import BOUNDS, parse_choice

Traversal = Literal["model", "embedding", "none"]


@dataclass(frozen=True)
class ThRagSettings:
    """Settings of TH-RAG's retrieval; the paper's (§4.4), but for `link_weight` and `name_weight`.

    topics, subtopics: least and most chosen, N_T and N_ST for each topic. sentences, passages: K_1
    and K_2. shortlist: names that the model chooses from, the nearest ones where a graph has more.
    link_weight: how much a sentence gains from a better one about the same entity, see
    `linked_rows`; 0 is the paper's. name_weight: how much one about an entity that the question
    names gains; 0 is the paper's. traversal: who chooses; "embedding" takes the nearest without a
    call, "none" searches all sentences (Table 7, w/o Traversal). budget: tokens of the evidence.
    max_answer_tokens: more than `LONG_ANSWER_TOKENS` asks for a long answer. evidence: what a RAS
    component reads, the facts on the sentences' edges or with them the sentences and passages
    (§3.3). prompts: of the steps that a backbone writes.
    """

    topics: tuple[int, int] = BOUNDS["topics"]
    subtopics: tuple[int, int] = BOUNDS["subtopics"]
    sentences: int = 30
    passages: int = 5
    shortlist: int = SHORTLIST
    link_weight: float = 0.5
    name_weight: float = 0.2
    traversal: Traversal = "model"
    budget: int = 6000
    max_answer_tokens: int = 100
    evidence: Evidence = "facts"
    prompts: Prompts = "own"


class ThRagLoop:
    """Answers from a hierarchy: 1 + N_T calls to choose, and one to answer.

    With a `reader` (a RAS component) the facts on the sentences' edges are read as a graph, alone
    or beside the text; without one the backbone answers from facts, sentences and passages.
    """

    def __init__(
        self,
        steps: ModelSteps,
        index: HierarchyIndex,
        settings: ThRagSettings,
        reader: GraphReader | None = None,
    ) -> None:
        self.steps = steps
        self.index = index
        self.settings = settings
        self.reader = reader
        self.offers = TopicOffers(index, settings.topics, settings.subtopics, settings.shortlist)

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Choose topics and subtopics, gather sentences, answer."""
        trace = trace or Trace(record.question)
        scored = await search(trace, self.index.score, record.question)
        step = TraceStep(record.question)
        trace.steps.append(step)
        subtopics = await self._traverse(scored, trace)
        evidence = await search(
            trace,
            self.index.evidence,
            scored,
            subtopics,
            self.settings.sentences,
            self.settings.link_weight,
            self.settings.name_weight,
        )
        step.passages = list(dict.fromkeys(item.chunk for item in evidence))
        step.triples = list(dict.fromkeys(t for item in evidence for t in item.triples))
        if self.reader is not None:
            if self.settings.evidence == "full":
                self._show(evidence, self.reader, trace)
            trace.answer = await self.reader.answer(as_history(trace), trace)
        else:
            trace.answer = await self._answer_from(evidence, trace)
        return trace

    def _show(
        self, evidence: Sequence[EvidenceSentence], reader: GraphReader, trace: Trace
    ) -> None:
        """Show as many relations, sentences and chunks, best first, as the reader's prompt holds.

        A chunk takes its turn with every K_1 / K_2 sentences, so that neither crowds out the other.
        """
        step, chunks = trace.steps[-1], self._expanded(trace)
        turns = [(place / len(evidence), "sentence") for place in range(len(evidence))]
        turns += [(place / len(chunks), "passage") for place in range(len(chunks))]
        order = [kind for _, kind in sorted(turns)]

        def with_first(count: int) -> TraceStep:
            sentences = evidence[: order[:count].count("sentence")]
            around = chunks[: order[:count].count("passage")]
            texts = [passage_text(item.chunk.title, item.sentence) for item in sentences]
            texts += [passage_text(passage.title, passage.text) for passage in around]
            triples = dict.fromkeys(t for item in sentences for t in item.triples)
            return replace(step, triples=list(triples), texts=texts)

        def is_cut(count: int) -> bool:
            shown = Trace(trace.question, steps=[with_first(count)])
            return not reader.has_room_for(as_history(shown))

        # At least one, which the prompt then cuts.
        count = max(1, bisect_left(range(1, len(order) + 1), True, key=is_cut))
        trace.steps[-1] = with_first(count)
        if count < len(order):
            trace.notes.append(
                f"{len(order) - count} sentences and passages left out to fit the input budget"
            )

    def _expanded(self, trace: Trace) -> list[Passage]:
        """Return the source chunks of the best sentences (Algorithm 2, line 14)."""
        return trace.steps[-1].passages[: self.settings.passages]

    async def _traverse(self, scored: ScoredQuestion, trace: Trace) -> list[int] | None:
        """Return the subtopics of all chosen topics (Algorithm 2, lines 3 to 9); None for all."""
        if self.settings.traversal == "none":
            return None
        graph = self.index.graph
        topics = await self._choose(self.offers.topics(scored), trace)

        async def choose_under(topic: int) -> list[int]:
            return await self._choose(self.offers.subtopics(scored, topic), trace)

        chosen = await at_once(map(choose_under, topics))
        trace.steps[-1].decision = "; ".join(
            f"{graph.topics[topic]}: {', '.join(graph.subtopics[s] for s in subtopics)}"
            for topic, subtopics in zip(topics, chosen, strict=True)
        )
        return list(dict.fromkeys(subtopic for found in chosen for subtopic in found))

    async def _choose(self, offer: Offer, trace: Trace) -> list[int]:
        """Choose among what is offered; no call where all of it is taken.

        What the model invents is left out; where it chooses too few, the nearest fill up.
        """
        choice, nearest = offer.choice, offer.nearest
        if offer.is_taken_whole:
            return list(nearest)
        if self.settings.traversal == "embedding":
            return list(nearest[: choice.most])
        text = await write_choice(self.steps, choice, self.settings.prompts, trace)
        parsed = parse_choice(text, choice.names)
        what = choice.level + (f" of {choice.topic}" if choice.topic else "")
        if parsed.invented:
            trace.notes.append(f"{parsed.invented} {what} that the graph does not hold")
        if not parsed.chosen:
            trace.notes.append(f"no {what} chosen, the nearest taken: {text!r}")
        chosen = [offer.numbers[name] for name in parsed.chosen[: choice.most]]
        others = [number for number in nearest if number not in chosen]
        return chosen + others[: max(0, choice.least - len(chosen))]

    async def _answer_from(self, evidence: Sequence[EvidenceSentence], trace: Trace) -> str:
        """Return the backbone's answer over the evidence and its passages (Algorithm 2, 13-14)."""
        settings, engine = self.settings, self.steps.engine
        text, left_out = fit_topic_evidence(
            evidence, self._expanded(trace), settings.budget, engine.count_tokens
        )
        if left_out:
            trace.notes.append(
                f"{left_out} sentences and passages left out of {settings.budget} tokens of "
                "evidence"
            )
        prompt = topic_answer_prompt(
            trace.question, text, settings.max_answer_tokens, settings.prompts
        )
        return await write_answer(engine, chat_request(prompt, settings.max_answer_tokens), trace)


@dataclass(frozen=True)
class ThRagOptions(LoopOptions):
    """Options of TH-RAG. Raises OptionsError for a trained chooser where no model chooses."""

    loop: str = "th_rag"
    hierarchy: Annotated[Path | None, Option("hierarchy of build_hierarchy.py", "DIR")] = None
    traversal: Annotated[
        Traversal,
        Option(
            "who chooses topics: the model, the nearest by embedding without a call, or none to "
            "search all sentences"
        ),
    ] = ThRagSettings.traversal
    topic_chooser: Annotated[Path | None, Helper("choose_topics")] = None
    most_topics: Annotated[int, Option("chosen a question")] = ThRagSettings.topics[1]
    most_subtopics: Annotated[int, Option("chosen a topic")] = ThRagSettings.subtopics[1]
    sentences: Annotated[int, Option("evidence sentences, K1")] = ThRagSettings.sentences
    passages: Annotated[
        int, Option("passages around them, K2; 0: the sentences alone", least=0)
    ] = ThRagSettings.passages
    link_weight: Annotated[
        float,
        Option(
            "pull of a sentence towards a better one about the same entity, from 0 (the paper's) "
            "to below 1"
        ),
    ] = ThRagSettings.link_weight
    name_weight: Annotated[
        float,
        Option(
            "what a sentence gains that is about an entity which the question names; 0 is the "
            "paper's"
        ),
    ] = ThRagSettings.name_weight
    evidence: EvidenceOption = ThRagSettings.evidence

    def __post_init__(self) -> None:
        if self.topic_chooser and self.traversal != "model":
            raise OptionsError(
                f"--topic-chooser {self.topic_chooser} with --traversal {self.traversal}: no model "
                "chooses then. Leave one of them out"
            )

    @property
    def settings(self) -> ThRagSettings:
        """The loop's settings; where few may be chosen, that is the least too."""
        least_topics, least_subtopics = ThRagSettings.topics[0], ThRagSettings.subtopics[0]
        return ThRagSettings(
            topics=(min(least_topics, self.most_topics), self.most_topics),
            subtopics=(min(least_subtopics, self.most_subtopics), self.most_subtopics),
            sentences=self.sentences,
            passages=self.passages,
            link_weight=self.link_weight,
            name_weight=self.name_weight,
            traversal=self.traversal,
            max_answer_tokens=self.max_answer_tokens,
            evidence=self.evidence,
            prompts=self.prompts,
        )


def _hierarchy(options: ThRagOptions) -> Path:
    if options.hierarchy is None:
        raise HierarchyError(
            "--loop th_rag answers from a hierarchy: name it with --hierarchy, after "
            "inference/build_hierarchy.py has made it"
        )
    return options.hierarchy


def check_th_rag(options: ThRagOptions) -> None:
    """Raise HierarchyError for options that name no hierarchy.

    Under the paper's preset, also for one whose topics are fields from a list.
    """
    store = HierarchyStore(_hierarchy(options))
    indexer = store.about().get(INDEXER, "")
    store.close()
    if options.preset == "paper" and not has_topics_of_its_own(indexer):
        raise HierarchyError(
            f"{options.hierarchy} has topics from a list (indexing model '{indexer}'), and the "
            "paper's are named from the corpus (§3.1). Build it with --topics corpus or --indexer "
            "prompted, or give --preset tuned"
        )


def open_th_rag(parts: LoopParts[ThRagOptions]) -> ThRagLoop:
    """Open TH-RAG over the hierarchy that the options name.

    A trained chooser chooses at both levels. Raises HierarchyError, IndexMismatchError.
    """
    options = parts.options
    index = HierarchyIndex.load(_hierarchy(options), parts.encoder(), options.index)
    chooser = parts.helpers.get("choose_topics")
    choosers = dict.fromkeys(CHOICE_STEPS.values(), chooser) if chooser else None
    return ThRagLoop(ModelSteps(parts.engine, choosers), index, options.settings, parts.ras_reader)


TH_RAG = LoopKind(
    "th_rag",
    ThRagOptions,
    open_th_rag,
    searches_corpus=False,
    index="hierarchy",
    heading="th_rag",
    documents=lambda loop: loop.index.documents,
    check=check_th_rag,
    # §4.4 and App. A: one prompted model does every step.
    paper={
        "traversal": "model",
        "most_topics": 10,
        "most_subtopics": 25,
        "sentences": 30,
        "passages": 5,
        "link_weight": 0.0,
        "name_weight": 0.0,
        "evidence": "full",
        "topic_chooser": None,
        "prompts": "paper",
        "derive_comparisons": False,
    },
)
