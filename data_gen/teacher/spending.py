"""What calls cost, and the cap that a run does not pass."""

from dataclasses import dataclass

from data_gen.teacher.calls import Answer, TeacherCall, most_input_tokens
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
        """What so many tokens cost."""
        return (input_tokens * self.input + output_tokens * self.output) / PER_PRICE

    def most(self, call: TeacherCall) -> Amount:
        """No less than what a call can cost."""
        read = most_input_tokens(call.request)
        written = call.request.sampling.max_new_tokens
        return Amount(read + written, self.cost(read, written))

    def answer(self, completion: Completion, call: TeacherCall) -> Answer:
        """A completion with its cost; an endpoint that tells no usage is charged for the most."""
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
