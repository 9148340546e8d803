"""The baseline that retrieves once and answers over the passages as they are."""

import asyncio

from inference.engines.contract import Engine, Request, Sampling
from inference.loops.graph_reader import MAX_ANSWER_TOKENS
from inference.loops.passage_steps import passages_prompt
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Retriever
from models.formats.records import QuestionRecord


class SingleShotLoop:
    """Retrieve-then-read over text, one call a question."""

    def __init__(self, engine: Engine, retriever: Retriever, top_k: int = 5) -> None:
        self.engine = engine
        self.retriever = retriever
        self.top_k = top_k

    async def answer(self, record: QuestionRecord) -> Trace:
        """Retrieve with the question and answer through the backbone's chat template."""
        trace = Trace(record.question)
        with trace.bill.stage("retrieve"):
            [hits] = await asyncio.to_thread(self.retriever.search, [record.question], self.top_k)
        passages = [hit.passage for hit in hits]
        trace.steps.append(TraceStep(record.question, passages))
        content = passages_prompt(record.question, passages)
        request = Request(
            messages=({"role": "user", "content": content},),
            sampling=Sampling(max_new_tokens=MAX_ANSWER_TOKENS),
        )
        with trace.bill.stage("answer"):
            [completion] = await self.engine.generate([request])
        trace.bill.charge([completion])
        trace.answer = completion.text.strip()
        return trace
