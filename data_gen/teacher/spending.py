"""The cost of calls, before and after, and the cap that a run does not pass."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from data_gen.teacher.prompts import Answer, TeacherCall, call_key, most_input_tokens, request_text
from inference.engines.contract import Completion

PER_PRICE = 1_000_000


@dataclass(frozen=True)
class Amount:
    """Tokens (input and output) and money."""

    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.tokens + other.tokens, self.cost + other.cost)


@dataclass(frozen=True)
class Prices:
    """In one currency, for a million tokens."""

    input: float = 0.0
    output: float = 0.0

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return what so many tokens cost."""
        return (input_tokens * self.input + output_tokens * self.output) / PER_PRICE

    def most(self, call: TeacherCall) -> Amount:
        """No less than what a call can cost."""
        read = most_input_tokens(call.request)
        written = call.request.sampling.max_new_tokens
        return Amount(read + written, self.cost(read, written))

    def answer(self, completion: Completion, call: TeacherCall) -> Answer:
        """Return a completion with its cost; without a usage told, the most is charged."""
        read, written = completion.input_tokens, completion.output_tokens
        if not read:
            read, written = most_input_tokens(call.request), call.request.sampling.max_new_tokens
        # Characters that are no Unicode text could not be written to any file.
        text = completion.text.encode("utf-8", "replace").decode("utf-8")
        cost = self.cost(read, written)
        return Answer(text, completion.finish_reason, read, written, cost)


class SpendCapError(RuntimeError):
    """The next call could pass the cap."""


@dataclass(frozen=True)
class SpendCap:
    """The most that all calls of a journal together may cost; None is no cap."""

    cost: float | None = None
    tokens: int | None = None

    def check(self, committed: Amount, most: Amount) -> None:
        """Raise SpendCapError when `most` on top of what is committed could pass the cap."""
        if self.cost is not None and committed.cost + most.cost > self.cost:
            raise SpendCapError(
                f"the cap of {self.cost:,.2f} is reached: {committed.cost:,.4f} are spent or under "
                f"way, and the next call may cost {most.cost:,.4f}"
            )
        if self.tokens is not None and committed.tokens + most.tokens > self.tokens:
            raise SpendCapError(
                f"the cap of {self.tokens:,} tokens is reached: {committed.tokens:,} are spent or "
                f"under way, and the next call may take {most.tokens:,}"
            )


@dataclass
class StageBill:
    """Counts of one stage.

    calls: answered now. known: answered from the journal. attempts: requests sent. retried:
    attempts that failed and were made again. failed: calls without an answer in the end.
    at_most_lost: the most that attempts which broke off may have cost, beside `cost`.
    """

    calls: int = 0
    known: int = 0
    attempts: int = 0
    retried: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    at_most_lost: float = 0.0

    def answered(self, answer: Answer) -> None:
        """Count an answer that came now."""
        self.calls += 1
        self.input_tokens += answer.input_tokens
        self.output_tokens += answer.output_tokens
        self.cost += answer.cost

    def broke_off(self, most: Amount) -> None:
        """Count an attempt that may have been billed for nothing."""
        self.at_most_lost += most.cost


@dataclass
class RunBill:
    """The bills of a run's stages."""

    stages: dict[str, StageBill] = field(default_factory=lambda: defaultdict(StageBill))

    @property
    def cost(self) -> float:
        """Return what the answers of this run cost."""
        return sum(stage.cost for stage in self.stages.values())

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and one row a stage."""
        names = [item.name for item in fields(StageBill)]
        rows = [[name, *vars(bill).values()] for name, bill in self.stages.items()]
        return ["stage", *(name.replace("_", " ") for name in names)], rows

    def as_dict(self) -> dict[str, Any]:
        """Return the counts by stage."""
        return {name: dict(vars(bill)) for name, bill in self.stages.items()}


@dataclass
class StageEstimate:
    """Calls of one stage.

    known: in the journal. calls: still to be made, each answered well at once. input_tokens: of
    these, about; output_tokens, cost: at most, with outputs of the greatest length.
    """

    known: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class Estimate:
    """Answers from a journal's answers, else counts a call and goes on with its stand-in.

    Calls whose prompts depend on answers that are not there yet are counted with earlier answers
    of the greatest length: an upper bound.
    """

    def __init__(
        self,
        model: str,
        answers: Mapping[str, Answer],
        prices: Prices,
        count_tokens: Callable[[str], int],
    ) -> None:
        self.stages: dict[str, StageEstimate] = defaultdict(StageEstimate)
        self._model = model
        self._answers = answers
        self._prices = prices
        self._count_tokens = count_tokens
        self._counted: set[str] = set()

    async def ask(self, call: TeacherCall) -> Answer:
        """Return the journal's answer, or a stand-in of the greatest length."""
        stage, key = self.stages[call.stage], call_key(self._model, call)
        known = self._answers.get(key)
        if known is not None:
            stage.known += 1
            return known
        read = self._count_tokens(request_text(call.request))
        written = call.request.sampling.max_new_tokens
        if key not in self._counted:
            self._counted.add(key)
            stage.calls += 1
            stage.input_tokens += read
            stage.output_tokens += written
            stage.cost += self._prices.cost(read, written)
        return Answer(call.stand_in, "stop", read, written)

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and one row a stage."""
        columns = ["stage", "in the journal", "calls", "input tokens", "output tokens", "cost"]
        names = [item.name for item in fields(StageEstimate)]
        rows = [[stage, *(getattr(e, n) for n in names)] for stage, e in self.stages.items()]
        return columns, rows

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by stage."""
        return {name: dict(vars(stage)) for name, stage in self.stages.items()}
