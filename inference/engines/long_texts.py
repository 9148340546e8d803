"""Texts that take long to tokenise: their ids are made in a thread.

A tokenizer takes about 0.7 seconds a million characters, for which an event loop would stand.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from inference.engines.contract import DeadlineExceededError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ResultT = TypeVar("ResultT")

# Characters; fewer are tokenised in the event loop.
LONG_TEXT = 100_000


class TokenizerThread:
    """Tokenises long texts, one after another, in a thread that ends with this object."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenizer")
        # By the tokenizer's id, which is its own as long as it is kept here too.
        self._copies: dict[int, tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase]] = {}
        self._characters_in_turn = 0

    async def run(
        self,
        tokenizer: PreTrainedTokenizerBase,
        characters: int,
        work: Callable[[PreTrainedTokenizerBase], ResultT],
        deadline_seconds: float | None = None,
    ) -> ResultT:
        """Do work that tokenises so many characters: few in the event loop, many in the thread.

        work: gets the tokenizer, or a copy of it in the thread.

        Raises DeadlineExceededError where the thread takes longer; what the work raises.
        """
        if characters <= LONG_TEXT:
            self._characters_in_turn += characters
            if self._characters_in_turn > LONG_TEXT:
                # Many short texts are a long one to all others who wait for the loop.
                self._characters_in_turn = characters
                await asyncio.sleep(0)
            return work(tokenizer)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(deadline_seconds):
                return await loop.run_in_executor(self._thread, self._run, tokenizer, work)
        except TimeoutError:
            raise DeadlineExceededError(deadline_seconds) from None

    def _run(
        self,
        tokenizer: PreTrainedTokenizerBase,
        work: Callable[[PreTrainedTokenizerBase], ResultT],
    ) -> ResultT:
        # One that is at work keeps all who would set an option of it waiting, and so the event
        # loop, where the next short text is to be read with other special tokens.
        if id(tokenizer) not in self._copies:
            self._copies[id(tokenizer)] = (tokenizer, copy.deepcopy(tokenizer))
        return work(self._copies[id(tokenizer)][1])
