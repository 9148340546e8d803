"""The longest prompt that a teacher is sent."""

from collections.abc import Callable
from dataclasses import dataclass

from data_gen.teacher.calls import most_input_tokens, request_text
from inference.engines.contract import Request


@dataclass(frozen=True)
class PromptLimit:
    """Prompts above `max_tokens` are refused before the call: an API would charge for them."""

    max_tokens: int
    count_tokens: Callable[[str], int]

    def fits(self, request: Request) -> bool:
        """Whether a request's prompt has at most `max_tokens` tokens."""
        if most_input_tokens(request) <= self.max_tokens:
            return True
        return self.count_tokens(request_text(request)) <= self.max_tokens
