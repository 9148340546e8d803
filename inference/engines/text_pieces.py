"""A text in pieces while a local engine writes it, token by token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from inference.engines.contract import GenerationError, Request
from inference.engines.token_choice import decode_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Bytes that are no whole character yet decode to it.
HALF_CHARACTER = "\ufffd"


class TextPieces:
    """Hands out what no later token changes: whole characters that begin no stop string."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        stop: Sequence[str],
        hand_out: Callable[[str], object],
    ) -> None:
        self._tokenizer = tokenizer
        self._stop = stop
        self._hand_out = hand_out
        self._sent = ""
        self.begin()

    def begin(self) -> None:
        """Begin, or begin anew: what was handed out is not handed out twice."""
        self._token_ids: list[int] = []
        # Tokens are decoded behind the ones before them: a tokenizer may join them with a space.
        self._context = self._decoded = 0
        self._text = ""

    def grow(self, token_ids: Sequence[int]) -> None:
        """Take the next tokens, and hand out what is settled with them."""
        self._token_ids += token_ids
        before = decode_ids(self._tokenizer, self._token_ids[self._context : self._decoded])
        text = decode_ids(self._tokenizer, self._token_ids[self._context :])
        if text.endswith(HALF_CHARACTER):
            return
        self._context, self._decoded = self._decoded, len(self._token_ids)
        self._text += text[len(before) :]
        self._send(self._text[: self._settled()])

    def end(self, text: str) -> None:
        """Hand out the rest of the finished text.

        Raises GenerationError where what was handed out is not its beginning: a batch failed, and
        the request was run again and took another turn.
        """
        if not text.startswith(self._sent):
            raise GenerationError(
                "the request was run again after a failure and gave another text than the one "
                "whose beginning was sent"
            )
        self._send(text)

    def _settled(self) -> int:
        """Return how much of the text neither a stop string nor the beginning of one follows."""
        found = [place for stop in self._stop if (place := self._text.find(stop)) >= 0]
        if found:
            return min(found)
        longest = max(map(len, self._stop), default=1)
        for length in range(min(longest - 1, len(self._text)), 0, -1):
            tail = self._text[-length:]
            if any(stop.startswith(tail) for stop in self._stop):
                return len(self._text) - length
        return len(self._text)

    def _send(self, text: str) -> None:
        if len(text) > len(self._sent) and text.startswith(self._sent):
            piece, self._sent = text[len(self._sent) :], text
            self._hand_out(piece)


def text_pieces(request: Request, tokenizer: PreTrainedTokenizerBase) -> TextPieces | None:
    """Return what hands a request's text out in the running event loop, from any thread.

    None where nobody listens.
    """
    if request.on_text is None:
        return None
    loop, on_text = asyncio.get_running_loop(), request.on_text

    def hand_out(piece: str) -> None:
        loop.call_soon_threadsafe(on_text, piece)

    return TextPieces(tokenizer, request.sampling.stop, hand_out)
