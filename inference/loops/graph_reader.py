"""The model that plans and answers over a history of subqueries and triples."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from inference.engines.contract import Constraint, Engine, Request, Sampling
from inference.loops.trace import Trace
from models.formats.grammars import plan_regex
from models.formats.history import History
from models.formats.plan import Plan, parse_plan
from models.formats.prompts import answer_prompt, plan_prompt
from models.formats.records import Task

MAX_PLAN_TOKENS = 64
MAX_ANSWER_TOKENS = 100
"""For short answers (RAS App. F.2); 300 for long ones."""


@dataclass(frozen=True)
class ReaderInput:
    """A request for the engine and what its prompt lost to the input budget.

    cut_triples, cut_steps: left out of the history. over_budget: the question, which is never
    cut, exceeds the budget by itself.
    """

    request: Request
    cut_triples: int = 0
    cut_steps: int = 0
    over_budget: bool = False

    @property
    def notes(self) -> list[str]:
        """What a reader of the trace should know of it."""
        notes = []
        if self.cut_triples or self.cut_steps:
            steps = f" and {self.cut_steps} whole steps" if self.cut_steps else ""
            notes.append(f"{self.cut_triples} triples{steps} left out to fit the input budget")
        if self.over_budget:
            notes.append("the question alone exceeds the input budget and was kept whole")
        return notes


InputMaker = Callable[[Task, History, Sampling], ReaderInput]


def chat_input(task: Task, history: History, sampling: Sampling) -> ReaderInput:
    """The prompt as a chat message, for a backbone or an API model that was not trained here."""
    prompt = plan_prompt(history) if task == "plan" else answer_prompt(history)
    messages = ({"role": "user", "content": prompt.strip()},)
    return ReaderInput(Request(messages=messages, sampling=sampling))


class GraphReader:
    """Plans (RAS eq. 1 and 2) and answers (eq. 7 and 8) through an engine."""

    def __init__(
        self,
        engine: Engine,
        make_input: InputMaker,
        max_answer_tokens: int = MAX_ANSWER_TOKENS,
        constrain: bool = False,
    ) -> None:
        """`make_input` turns a history into a request as the component was trained to read it;
        `constrain` holds plans to their grammar.
        """
        self.engine = engine
        self.make_input = make_input
        self.max_answer_tokens = max_answer_tokens
        self.plan_constraint = Constraint(regex=plan_regex()) if constrain else None

    async def plan(self, history: History, trace: Trace) -> Plan | None:
        """The next plan; None when the model wrote none, which the trace notes."""
        text = await self._generate("plan", history, trace, MAX_PLAN_TOKENS)
        plan = parse_plan(text).plan
        if plan is None:
            trace.notes.append(f"not a plan: {text!r}")
        if trace.steps:
            trace.steps[-1].decision = text
        return plan

    async def answer(self, history: History, trace: Trace) -> str:
        """The answer over what the history holds."""
        return (await self._generate("answer", history, trace, self.max_answer_tokens)).strip()

    async def _generate(self, task: Task, history: History, trace: Trace, tokens: int) -> str:
        reader_input = self.make_input(task, history, Sampling(max_new_tokens=tokens))
        trace.notes += [f"{task}: {note}" for note in reader_input.notes]
        request = reader_input.request
        if task == "plan":
            request = replace(request, constraint=self.plan_constraint)
        with trace.bill.stage(task):
            [completion] = await self.engine.generate([request])
        trace.bill.charge([completion])
        return completion.text
