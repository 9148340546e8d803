"""The steps that loops over passages share: search, write, and answer at the end."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from inference.engines.contract import Engine, Request, Sampling
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Passage, Retriever
from models.formats.prompts import passage_text

INSTRUCTION = (
    "Answer the question with the help of the passages. Give only the answer, a name, a date or "
    "yes or no, without a sentence around it."
)


def passages_prompt(question: str, passages: list[Passage]) -> str:
    """Instruction, numbered passages, question."""
    numbered = [
        f"[{number}] {passage_text(passage.title, passage.text)}"
        for number, passage in enumerate(passages, start=1)
    ]
    return "\n\n".join([INSTRUCTION, *numbered, f"Question: {question}"])


def chat_request(prompt: str, max_new_tokens: int, stop: tuple[str, ...] = ()) -> Request:
    """A prompt as one chat message, greedy (T²RAG App. B.1)."""
    messages = ({"role": "user", "content": prompt.strip()},)
    return Request(messages=messages, sampling=Sampling(max_new_tokens=max_new_tokens, stop=stop))


@dataclass(frozen=True)
class PassageSettings:
    """How a multi-round baseline retrieves: k and the most rounds of T²RAG §5.2.

    top_k: passages a search. max_rounds: searches a question. max_passages: of all searches that
    the answer is read from, the first ones. max_thought_tokens: of what is written between two
    searches.
    """

    top_k: int = 5
    max_rounds: int = 3
    max_passages: int = 15
    max_thought_tokens: int = 128
    max_answer_tokens: int = 100


class PassageSteps:
    """Search and text generation of one loop, charged to the question's trace."""

    def __init__(self, engine: Engine, retriever: Retriever, settings: PassageSettings) -> None:
        self.engine = engine
        self.retriever = retriever
        self.settings = settings

    async def search(self, query: str, trace: Trace) -> list[Passage]:
        """The best passages; a step of the trace."""
        with trace.bill.stage("retrieve"):
            [hits] = await asyncio.to_thread(self.retriever.search, [query], self.settings.top_k)
        passages = [hit.passage for hit in hits]
        trace.steps.append(TraceStep(query, passages))
        return passages

    async def think(self, prompt: str, trace: Trace, stop: tuple[str, ...] = ()) -> str:
        """What the model writes between two searches; the decision of the last step."""
        text = await self._write(prompt, trace, "think", self.settings.max_thought_tokens, stop)
        if trace.steps:
            trace.steps[-1].decision = text
        return text

    async def read(self, question: str, passages: Iterable[Passage], trace: Trace) -> str:
        """The answer to a question over the first of the passages."""
        shown = list(passages)[: self.settings.max_passages]
        prompt = passages_prompt(question, shown)
        return await self._write(prompt, trace, "answer", self.settings.max_answer_tokens)

    async def _write(
        self, prompt: str, trace: Trace, stage: str, tokens: int, stop: tuple[str, ...] = ()
    ) -> str:
        with trace.bill.stage(stage):
            [completion] = await self.engine.generate([chat_request(prompt, tokens, stop)])
        trace.bill.charge([completion])
        return completion.text.strip()


def distinct_passages(trace: Trace) -> list[Passage]:
    """All passages of a trace, each once, those of the first search first."""
    found = {passage.id: passage for step in trace.steps for passage in step.passages}
    return list(found.values())
