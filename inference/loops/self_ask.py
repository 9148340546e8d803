"""Self-Ask: the model asks itself follow-up questions, which retrieval answers
(Press et al. 2023; T²RAG App. B.7)."""

from inference.loops.passage_steps import PassageSteps, distinct_passages
from inference.loops.trace import Trace
from models.formats.records import QuestionRecord
from models.formats.self_ask import STOP_SELF_ASK, parse_self_ask, self_ask_prompt


class SelfAskLoop:
    """Follow-up questions, each answered over its own passages, then the final answer."""

    def __init__(self, steps: PassageSteps) -> None:
        self.steps = steps

    async def answer(self, record: QuestionRecord) -> Trace:
        """Ask and answer until the model gives the final answer.

        Where it writes neither, asks the same again, or asks one question too many, the answer is
        read from all passages found.
        """
        trace = Trace(record.question)
        answered: list[tuple[str, str]] = []
        while True:
            prompt = self_ask_prompt(record.question, answered)
            text = await self.steps.think(prompt, trace, STOP_SELF_ASK)
            following = parse_self_ask(text)
            if following is not None and following.is_final:
                trace.answer = following.text
                return trace
            if following is None:
                trace.notes.append(f"neither a follow up question nor an answer: {text!r}")
                break
            if following.text.casefold() in {asked.casefold() for asked, _ in answered}:
                trace.notes.append(f"stopped at a repeated question: {following.text!r}")
                break
            if len(answered) >= self.steps.settings.max_rounds:
                trace.notes.append(f"stopped after {len(answered)} rounds")
                break
            passages = await self.steps.search(following.text, trace)
            answer = await self.steps.read(following.text, passages, trace)
            answered.append((following.text, answer))
        passages = distinct_passages(trace)
        trace.answer = await self.steps.read(record.question, passages, trace)
        return trace
