"""What an engine raises; loops record it with the question that it befell."""


class EngineError(RuntimeError):
    """A request that an engine could not answer; the message says which and why."""


class InvalidRequestError(EngineError):
    """A request that contradicts itself, such as one with two prompts."""


class UnsupportedRequestError(EngineError):
    """A request for something that this engine cannot do, such as graphs over a remote API."""


class UnknownAdapterError(EngineError):
    """A request for an adapter that the engine did not load; the message names those it has."""


class PromptTooLongError(EngineError):
    """A prompt that, with its new tokens, does not fit the model's context."""


class GenerationError(EngineError):
    """The model failed while it ran this request, on its own, outside any batch."""


class DeadlineExceededError(EngineError):
    """A request that was not answered within its `deadline_seconds`."""

    def __init__(self, deadline_seconds: float | None) -> None:
        super().__init__(f"not answered within {deadline_seconds} seconds")


class TransientError(EngineError):
    """A failure that need not happen again: a busy endpoint, a broken connection, half an answer.

    retry_after: seconds that the endpoint asks to wait; None where it does not say.
    may_be_billed: the request may have been answered, and the answer lost on the way.
    """

    def __init__(
        self, message: str, retry_after: float | None = None, may_be_billed: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.may_be_billed = may_be_billed


class AccessError(EngineError):
    """An endpoint that refuses whatever it is asked: the key, the model's name or the quota."""


class EngineDiedError(EngineError):
    """The process that ran this request ended, or made no progress and was ended."""


class EngineClosedError(EngineError):
    """A request that came after, or was waiting at, the engine's close."""


def generation_error(error: Exception) -> GenerationError:
    """What a model or library raised, as an engine's own error."""
    failed = GenerationError(f"generation failed: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed
