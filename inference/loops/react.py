"""ReAct: the model thinks, searches and finishes on its own (Yao et al. 2023; T²RAG App. B.7)."""

from inference.loops.passage_steps import PassageSteps, distinct_passages
from inference.loops.trace import Trace
from models.formats.prompts import passage_text
from models.formats.react import STOP_REACT, Turn, parse_action, react_prompt
from models.formats.records import QuestionRecord


class ReactLoop:
    """Thought, action and observation in turn until the model finishes."""

    def __init__(self, steps: PassageSteps) -> None:
        self.steps = steps

    async def answer(self, record: QuestionRecord) -> Trace:
        """Search as the model asks until it finishes.

        Where it writes no action, or asks for one search too many, the answer is read from all
        passages found.
        """
        trace = Trace(record.question)
        turns: list[Turn] = []
        while True:
            text = await self.steps.think(react_prompt(record.question, turns), trace, STOP_REACT)
            action = parse_action(text)
            if action is not None and action.finishes:
                trace.answer = action.argument
                return trace
            if action is None:
                trace.notes.append(f"no action: {text!r}")
                break
            if len(turns) >= self.steps.settings.max_rounds:
                trace.notes.append(f"stopped after {len(turns)} rounds")
                break
            passages = await self.steps.search(action.argument, trace)
            turns.append(Turn(action.written, [passage_text(p.title, p.text) for p in passages]))
        passages = distinct_passages(trace)
        trace.answer = await self.steps.read(record.question, passages, trace)
        return trace
