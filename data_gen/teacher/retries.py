"""Which failures are tried again, and after how long: the only place that decides it."""

import random
from dataclasses import dataclass

from inference.engines.errors import (
    DeadlineExceededError,
    EngineDiedError,
    EngineError,
    TransientError,
)


def is_transient(error: EngineError) -> bool:
    """Whether the same call may succeed later."""
    return isinstance(error, TransientError | DeadlineExceededError | EngineDiedError)


def may_be_billed(error: EngineError) -> bool:
    """Whether an answer may have been paid for that never came."""
    if isinstance(error, TransientError):
        return error.may_be_billed
    return isinstance(error, DeadlineExceededError | EngineDiedError)


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with full jitter; an endpoint's own word comes first.

    attempts: of one call, the first included. base_seconds: the longest first wait; it doubles
    with each attempt up to longest_seconds. longest_told_seconds: an endpoint that asks to wait
    for longer ends the run.
    """

    attempts: int = 10
    base_seconds: float = 1.0
    longest_seconds: float = 60.0
    longest_told_seconds: float = 3600.0

    def wait_seconds(self, failed_attempts: int, error: EngineError) -> float:
        """How long to wait after so many failed attempts; at least what the endpoint asks for."""
        longest = min(self.longest_seconds, self.base_seconds * 2 ** (failed_attempts - 1))
        return (told_seconds(error) or 0.0) + random.uniform(0.0, longest)


def told_seconds(error: EngineError) -> float | None:
    """How long the endpoint asks to wait, if it does."""
    return error.retry_after if isinstance(error, TransientError) else None
