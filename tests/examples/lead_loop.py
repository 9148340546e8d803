"""A loop: answers over the first words of each passage found. All of it is in this file."""

from dataclasses import dataclass
from typing import Annotated

from inference.engines.contract import Engine, Sampling
from inference.loops.kind import LoopKind, LoopOptions, LoopParts, Option
from inference.loops.model import search_passages, user_request, write_answer
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Retriever
from models.formats.records import QuestionRecord


@dataclass(frozen=True)
class LeadOptions(LoopOptions):
    """The shared options, and one of this loop's own."""

    lead_words: Annotated[int, Option("words that the model is shown of each passage")] = 20


class LeadLoop:
    """One search and one call a question."""

    def __init__(self, engine: Engine, retriever: Retriever, options: LeadOptions) -> None:
        self.engine = engine
        self.retriever = retriever
        self.options = options

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Answer over the leads of the passages found."""
        trace = trace or Trace(record.question)
        top_k = self.options.top_k
        [passages] = await search_passages(self.retriever, [record.question], top_k, trace)
        trace.steps.append(TraceStep(record.question, passages))
        leads = [" ".join(p.text.split()[: self.options.lead_words]) for p in passages]
        trace.notes.append(f"read {sum(len(lead.split()) for lead in leads)} words")
        prompt = "\n".join([*leads, f"Question: {record.question}", "Answer:"])
        sampling = Sampling(max_new_tokens=self.options.max_answer_tokens)
        trace.answer = await write_answer(self.engine, user_request(prompt, sampling), trace)
        return trace


def open_lead(parts: LoopParts[LeadOptions]) -> LeadLoop:
    """Open the loop."""
    return LeadLoop(parts.engine, parts.retriever(), parts.options)


LEAD = LoopKind("lead", LeadOptions, open_lead, components=(), heading="lead")
