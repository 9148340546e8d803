"""IRCoT: each thought is the next search (Trivedi et al. 2023, §3; T²RAG App. B.1)."""

from inference.loops.passage_steps import PassageSteps, distinct_passages
from inference.loops.trace import Trace
from models.formats.chain_of_thought import final_answer, parse_thought, thought_prompt
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord


class IrcotLoop:
    """Interleaves retrieval with a chain of thought, then answers over all that was retrieved."""

    def __init__(self, steps: PassageSteps) -> None:
        self.steps = steps

    async def answer(self, record: QuestionRecord) -> Trace:
        """Search with the question, then with one thought after the other.

        Ends at a thought that gives the answer, is empty or was had before, and after the last
        round, whose passages the answer is read from without another thought.
        """
        trace = Trace(record.question)
        thoughts: list[str] = []
        query: str | None = record.question
        while query is not None:
            await self.steps.search(query, trace)
            query = await self._next_thought(thoughts, trace)
        passages = distinct_passages(trace)
        trace.answer = await self.steps.read(record.question, passages, trace)
        return trace

    async def _next_thought(self, thoughts: list[str], trace: Trace) -> str | None:
        """A thought to search with; None where it is time to answer."""
        if len(trace.steps) >= self.steps.settings.max_rounds:
            trace.notes.append(f"stopped after {len(trace.steps)} rounds")
            return None
        most = self.steps.settings.max_passages
        shown = [passage_text(p.title, p.text) for p in distinct_passages(trace)[:most]]
        text = await self.steps.think(thought_prompt(trace.question, shown, thoughts), trace)
        thought = parse_thought(text)
        if thought is None:
            trace.notes.append("stopped at an empty thought")
        elif thought.casefold() in {earlier.casefold() for earlier in thoughts}:
            trace.notes.append(f"stopped at a repeated thought: {thought!r}")
        elif final_answer(thought) is None:
            thoughts.append(thought)
            return thought
        return None
