"""The cost of an answer: calls, tokens and seconds (T²RAG App. B.4)."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from inference.engines.contract import Completion

OUTPUT_TOKEN_WEIGHT = 4


@dataclass
class Bill:
    """The cost of an answer; `seconds` is wall-clock by stage, waiting for the engine included."""

    llm_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def weighted_tokens(self) -> int:
        """Input plus four times output tokens (T²RAG App. B.4)."""
        return self.input_tokens + OUTPUT_TOKEN_WEIGHT * self.output_tokens

    def charge(self, completions: Iterable[Completion]) -> None:
        """Add calls to a model."""
        for completion in completions:
            self.llm_calls += 1
            self.input_tokens += completion.input_tokens
            self.output_tokens += completion.output_tokens

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block under a stage's name."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
