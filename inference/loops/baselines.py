"""The baselines: no retrieval, retrieving once, IRCoT, ReAct and Self-Ask."""

from dataclasses import dataclass

from inference.engines.contract import Engine, Sampling
from inference.loops.kind import LoopKind, LoopOptions, LoopParts
from inference.loops.model import (
    MAX_ANSWER_TOKENS,
    GraphReader,
    PassageSettings,
    PassageSteps,
    distinct_passages,
    passages_prompt,
    search_passages,
    user_request,
    write_answer,
)
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Retriever
from models.formats.baselines import (
    STOP_REACT,
    STOP_SELF_ASK,
    Turn,
    final_answer,
    parse_action,
    parse_self_ask,
    parse_thought,
    react_prompt,
    self_ask_prompt,
    thought_prompt,
)
from models.formats.planning import History
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord


class NoRetrievalLoop:
    """One call a question, nothing retrieved (RAS eq. 7)."""

    def __init__(self, reader: GraphReader) -> None:
        self.reader = reader

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Answer at once."""
        trace = trace or Trace(record.question)
        trace.answer = await self.reader.answer(History(record.question, no_retrieval=True), trace)
        return trace


class SingleShotLoop:
    """Retrieve-then-read over text, one call a question."""

    def __init__(
        self,
        engine: Engine,
        retriever: Retriever,
        top_k: int = 5,
        max_answer_tokens: int = MAX_ANSWER_TOKENS,
    ) -> None:
        self.engine = engine
        self.retriever = retriever
        self.top_k = top_k
        self.max_answer_tokens = max_answer_tokens

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Retrieve with the question and answer through the backbone's chat template."""
        trace = trace or Trace(record.question)
        question = [record.question]
        [passages] = await search_passages(self.retriever, question, self.top_k, trace)
        trace.steps.append(TraceStep(record.question, passages))
        content = passages_prompt(record.question, passages)
        request = user_request(content, Sampling(max_new_tokens=self.max_answer_tokens))
        trace.answer = await write_answer(self.engine, request, trace)
        return trace


class IrcotLoop:
    """Interleaves retrieval with a chain of thought, then answers over all that was retrieved."""

    def __init__(self, steps: PassageSteps) -> None:
        self.steps = steps

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Search with the question, then with one thought after the other.

        Ends at a thought that gives the answer, is empty or was had before, and after the last
        round, whose passages the answer is read from without another thought.
        """
        trace = trace or Trace(record.question)
        thoughts: list[str] = []
        query: str | None = record.question
        while query is not None:
            await self.steps.search(query, trace)
            query = await self._next_thought(thoughts, trace)
        return await self.steps.conclude(trace)

    async def _next_thought(self, thoughts: list[str], trace: Trace) -> str | None:
        """Return a thought to search with; None where it is time to answer."""
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


class ReactLoop:
    """Thought, action and observation in turn until the model finishes."""

    def __init__(self, steps: PassageSteps) -> None:
        self.steps = steps

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Search as the model asks until it finishes.

        Where it writes no action, or asks for one search too many, the answer is read from all
        passages found.
        """
        trace = trace or Trace(record.question)
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
        return await self.steps.conclude(trace)


class SelfAskLoop:
    """Follow-up questions, each answered over its own passages, then the final answer."""

    def __init__(self, steps: PassageSteps) -> None:
        self.steps = steps

    async def answer(self, record: QuestionRecord, trace: Trace | None = None) -> Trace:
        """Ask and answer until the model gives the final answer.

        Where it writes neither, asks the same again, or asks one question too many, the answer is
        read from all passages found.
        """
        trace = trace or Trace(record.question)
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
        return await self.steps.conclude(trace)


@dataclass(frozen=True)
class RoundsOptions(LoopOptions):
    """Options of the baselines of several rounds, whose limits are not RAS's."""

    loop: str = "ircot"
    top_k: int = PassageSettings.top_k
    max_rounds: int = PassageSettings.max_rounds


def open_none(parts: LoopParts[LoopOptions]) -> NoRetrievalLoop:
    """Open the loop that retrieves nothing."""
    return NoRetrievalLoop(parts.reader)


def open_single(parts: LoopParts[LoopOptions]) -> SingleShotLoop:
    """Open the loop that retrieves once."""
    options = parts.options
    return SingleShotLoop(parts.engine, parts.retriever(), options.top_k, options.max_answer_tokens)


def passage_steps(parts: LoopParts[RoundsOptions]) -> PassageSteps:
    """Return what the baselines of several rounds search and write with."""
    options = parts.options
    settings = PassageSettings(
        options.top_k, options.max_rounds, max_answer_tokens=options.max_answer_tokens
    )
    return PassageSteps(parts.engine, parts.retriever(), settings)


NONE = LoopKind("none", LoopOptions, open_none, searches_corpus=False)
SINGLE = LoopKind("single", LoopOptions, open_single, components=())
IRCOT = LoopKind("ircot", RoundsOptions, lambda p: IrcotLoop(passage_steps(p)), components=())
REACT = LoopKind("react", RoundsOptions, lambda p: ReactLoop(passage_steps(p)), components=())
SELF_ASK = LoopKind(
    "self_ask", RoundsOptions, lambda p: SelfAskLoop(passage_steps(p)), components=()
)
