"""An endpoint's answer that comes in chunks, and the whole that they make."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field
from typing import Any

from inference.engines.contract import TransientError

# Without it a stream has no usage.
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


@dataclass
class Streamed:
    """What came so far; `logprobs` of the tokens, where they were asked for."""

    text: str = ""
    finish_reason: str | None = None
    usage: Any = None
    logprobs: list[float] = field(default_factory=list)

    def take(self, choice: Any) -> str:
        """Add a chunk's choice, of a chat or a completion; returns its piece of text."""
        delta = getattr(choice, "delta", None)
        piece = (choice.text if delta is None else delta.content) or ""
        self.text += piece
        self.finish_reason = choice.finish_reason or self.finish_reason
        if choice.logprobs is not None and delta is None:
            self.logprobs += choice.logprobs.token_logprobs or []
        elif choice.logprobs is not None:
            self.logprobs += [token.logprob for token in choice.logprobs.content or []]
        return piece


async def read_stream(
    chunks: AsyncIterable[Any], on_text: Callable[[str], None], where: str
) -> Streamed:
    """Return the whole of an answer, whose pieces `on_text` hears as they come.

    Raises TransientError for a stream that ends early or whose chunks are no JSON, and the client's
    own errors.
    """
    whole = Streamed()
    try:
        async for chunk in chunks:
            whole.usage = getattr(chunk, "usage", None) or whole.usage
            for choice in chunk.choices:
                if piece := whole.take(choice):
                    on_text(piece)
    except ValueError as error:  # a chunk that is no JSON
        message = f"{where}: the stream broke off ({error})"
        raise TransientError(message, may_be_billed=True) from error
    if whole.finish_reason is None:
        message = f"{where}: the stream ended before the answer did"
        raise TransientError(message, may_be_billed=True)
    return whole
