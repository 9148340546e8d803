"""The steps that loops share: plan, search, write and answer."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from inference.engines.contract import Constraint, Engine, Request, Sampling
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Passage, Retriever
from models.formats.grammars import plan_regex
from models.formats.helpers import NOTHING
from models.formats.paper_prompts import ras_prompt
from models.formats.planning import (
    MAX_SUBQUERIES,
    History,
    Plan,
    cut_plans,
    parse_plan,
    parse_plans,
)
from models.formats.prompts import answer_prompt, passage_text, plan_prompt
from models.formats.records import Task

P = ParamSpec("P")
T = TypeVar("T")
PromptRequest = Callable[[str], Request]
MAX_PLAN_TOKENS = 64
MAX_ANSWER_TOKENS = 100
"""For short answers (RAS App. F.2); 300 for long ones."""
INSTRUCTION = (
    "Answer the question with the help of the passages. Give only the answer, a name, a date or "
    "yes or no, without a sentence around it."
)


async def generate(
    engine: Engine, requests: Sequence[Request], stage: str, trace: Trace
) -> list[str]:
    """Return what the model writes for each request; its bill goes to the trace.

    stage: the name under which the seconds stand. Raises EngineError.
    """
    with trace.stage(stage):
        completions = await engine.generate(requests)
    trace.bill.charge(completions)
    return [completion.text for completion in completions]


async def write(engine: Engine, request: Request, stage: str, trace: Trace) -> str:
    """Return what the model writes for one request, stripped; as `generate`."""
    [text] = await generate(engine, [request], stage, trace)
    return text.strip()


async def write_answer(engine: Engine, request: Request, trace: Trace) -> str:
    """Return the answer that ends a loop, stripped; empty where evidence alone is asked for.

    The trace's listener hears it as it is written. Raises EngineError.
    """
    if trace.evidence_only:
        return ""
    if trace.listener is not None:
        request = replace(request, on_text=trace.listener.writes)
    return await write(engine, request, "answer", trace)


async def search(trace: Trace, find: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `find` returns, run in a thread; the trace is charged for the seconds."""
    with trace.stage("retrieve"):
        return await asyncio.to_thread(find, *args, **kwargs)


async def search_passages(
    retriever: Retriever, queries: Sequence[str], top_k: int, trace: Trace
) -> list[list[Passage]]:
    """Return the best passages for each query."""
    found = await search(trace, retriever.search, list(queries), top_k)
    return [[hit.passage for hit in hits] for hits in found]


def user_request(content: str, sampling: Sampling) -> Request:
    """Return a request with one chat message, which is sent as it is."""
    return Request(messages=({"role": "user", "content": content},), sampling=sampling)


class ModelSteps:
    """Asks for a loop's steps by name.

    A helper reads the bare prompt of its format in models/formats/, as in training; the backbone
    reads the instruction and the same prompt as a chat message.
    """

    def __init__(self, engine: Engine, helpers: Mapping[str, PromptRequest] | None = None) -> None:
        """helpers: makers of requests by step (`helper_requests`)."""
        self.engine = engine
        self.helpers = dict(helpers or {})

    async def ask(
        self,
        step: str,
        instruction: str,
        prompt: str,
        trace: Trace,
        max_tokens: int,
        constraint: Constraint | None = None,
    ) -> str:
        """Return the model's text, charged to the trace under the step's name.

        max_tokens: of the backbone; a helper has its own limit.
        """
        if step in self.helpers:
            request = self.helpers[step](prompt)
        else:
            request = chat_request(f"{instruction}\n\n{prompt}", max_tokens)
        request = replace(request, constraint=constraint)
        [text] = await generate(self.engine, [request], step, trace)
        return text


@dataclass(frozen=True)
class ReaderInput:
    """A request for the engine and what its prompt lost to the input budget.

    cut_triples, cut_texts, cut_steps: left out of the history. over_budget: the question, which is
    never cut, exceeds the budget by itself.
    """

    request: Request
    cut_triples: int = 0
    cut_steps: int = 0
    over_budget: bool = False
    cut_texts: int = 0

    @property
    def notes(self) -> list[str]:
        """Return what a reader of the trace should know of it."""
        notes = []
        cut = {"triples": self.cut_triples, "texts": self.cut_texts, "whole steps": self.cut_steps}
        if left_out := [f"{count} {what}" for what, count in cut.items() if count]:
            notes.append(f"{' and '.join(left_out)} left out to fit the input budget")
        if self.over_budget:
            notes.append("the question alone exceeds the input budget and was kept whole")
        return notes


InputMaker = Callable[[Task, History, Sampling], ReaderInput]


def chat_input(task: Task, history: History, sampling: Sampling) -> ReaderInput:
    """Return prompt as a chat message, for a backbone or an API model that was not trained here."""
    prompt = plan_prompt(history) if task == "plan" else answer_prompt(history)
    return ReaderInput(user_request(prompt.strip(), sampling))


def few_shot_input(task: Task, history: History, sampling: Sampling) -> ReaderInput:
    """Return the paper's prompt of a closed model as a chat message (RAS App. F.1)."""
    return ReaderInput(user_request(ras_prompt(task, history), sampling))


class GraphReader:
    """Plans (RAS eq. 1 and 2) and answers (eq. 7 and 8) through an engine."""

    def __init__(
        self,
        engine: Engine,
        make_input: InputMaker,
        max_answer_tokens: int = MAX_ANSWER_TOKENS,
        constrain: bool = False,
        plan_ahead: bool = False,
    ) -> None:
        """`make_input` turns a history into a request as the component was trained to read it;
        `constrain` holds plans to their grammar; `plan_ahead` reads all plans of a text, not the
        first alone.
        """
        self.engine = engine
        self.make_input = make_input
        self.max_answer_tokens = max_answer_tokens
        self.max_subqueries = MAX_SUBQUERIES if plan_ahead else 1
        regex = plan_regex(max_subqueries=self.max_subqueries) if constrain else None
        self.plan_constraint = None if regex is None else Constraint(regex=regex)

    async def plans(self, history: History, trace: Trace) -> list[Plan]:
        """Return the next plans, an end the last; none when the model wrote none, which the trace
        notes.
        """
        tokens = self.max_subqueries * MAX_PLAN_TOKENS
        request = replace(
            self._request("plan", history, trace, tokens), constraint=self.plan_constraint
        )
        [text] = await generate(self.engine, [request], "plan", trace)
        plans = cut_plans(parse_plans(text).plans, self.max_subqueries)
        if not plans:
            trace.notes.append(f"not a plan: {text!r}")
        if trace.steps:
            trace.steps[-1].decision = text
        # A planner that names one step at a time decides on its end after it.
        return plans[:1] if self.max_subqueries == 1 else plans

    async def plan(self, history: History, trace: Trace) -> Plan | None:
        """Return the next plan, the first of several; None where there is none, as `plans`."""
        plans = await self.plans(history, trace)
        return plans[0] if plans else None

    async def answer(self, history: History, trace: Trace) -> str:
        """Return the answer over what the history holds; "" where it settles none.

        A plan in the place of an answer, which asks on, is none either; the trace notes both.
        """
        request = self._request("answer", history, trace, self.max_answer_tokens)
        text = await write_answer(self.engine, request, trace)
        if text.lower() == NOTHING:
            trace.notes.append("declined: what was found does not settle the question")
            return ""
        if text.startswith("[") and parse_plan(text).plan is not None:
            trace.notes.append(f"not an answer: {text!r}")
            return ""
        return text

    def has_room_for(self, history: History) -> bool:
        """Return whether an answer's prompt over a history shows all of it."""
        reader_input = self.make_input("answer", history, Sampling(max_new_tokens=1))
        return not (reader_input.cut_triples or reader_input.cut_texts or reader_input.cut_steps)

    def _request(self, task: Task, history: History, trace: Trace, tokens: int) -> Request:
        reader_input = self.make_input(task, history, Sampling(max_new_tokens=tokens))
        trace.notes += [f"{task}: {note}" for note in reader_input.notes]
        return reader_input.request


def passages_prompt(question: str, passages: list[Passage]) -> str:
    """Return instruction, numbered passages, question."""
    numbered = [
        f"[{number}] {passage_text(passage.title, passage.text)}"
        for number, passage in enumerate(passages, start=1)
    ]
    return "\n\n".join([INSTRUCTION, *numbered, f"Question: {question}"])


def chat_request(prompt: str, max_new_tokens: int, stop: tuple[str, ...] = ()) -> Request:
    """Return a prompt as one chat message, greedy (T²RAG App. B.1)."""
    return user_request(prompt.strip(), Sampling(max_new_tokens=max_new_tokens, stop=stop))


@dataclass(frozen=True)
class PassageSettings:
    """Settings of a baseline's retrieval in rounds: k and the most rounds of T²RAG §5.2.

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
        """Return the best passages; a step of the trace."""
        [passages] = await search_passages(self.retriever, [query], self.settings.top_k, trace)
        trace.steps.append(TraceStep(query, passages))
        return passages

    async def think(self, prompt: str, trace: Trace, stop: tuple[str, ...] = ()) -> str:
        """Return model's text between two searches, which becomes the decision of the last step."""
        request = chat_request(prompt, self.settings.max_thought_tokens, stop)
        text = await write(self.engine, request, "think", trace)
        if trace.steps:
            trace.steps[-1].decision = text
        return text

    async def conclude(self, trace: Trace) -> Trace:
        """Return the trace with the answer that is read from all passages found."""
        trace.answer = await self.read(trace.question, distinct_passages(trace), trace)
        return trace

    async def read(self, question: str, passages: Iterable[Passage], trace: Trace) -> str:
        """Return the answer to a question over the first of the passages."""
        shown = list(passages)[: self.settings.max_passages]
        prompt = passages_prompt(question, shown)
        request = chat_request(prompt, self.settings.max_answer_tokens)
        return await write_answer(self.engine, request, trace)


def distinct_passages(trace: Trace) -> list[Passage]:
    """Return all passages of a trace, each once, those of the first search first."""
    found = {passage.id: passage for step in trace.steps for passage in step.passages}
    return list(found.values())
