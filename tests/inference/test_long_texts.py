"""Long texts are tokenised beside the event loop, and many short ones do not hold it either."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from transformers import PreTrainedTokenizerBase

from inference.engines.contract import DeadlineExceededError
from inference.engines.long_texts import LONG_TEXT, TokenizerThread
from tests.tiny import tiny_tokenizer


async def test_a_long_text_does_not_hold_the_event_loop() -> None:
    thread, tokenizer, go_on = TokenizerThread(), tiny_tokenizer(), threading.Event()
    seen: list[PreTrainedTokenizerBase] = []

    def work(given: PreTrainedTokenizerBase) -> list[int]:
        seen.append(given)
        assert go_on.wait(300)
        return list(given("a text")["input_ids"])

    first = asyncio.create_task(thread.run(tokenizer, LONG_TEXT + 1, work))
    second = asyncio.create_task(thread.run(tokenizer, LONG_TEXT + 1, work))
    await asyncio.sleep(0)
    # The loop goes on, and so do short texts.
    assert await thread.run(tokenizer, 1, lambda given: given) is tokenizer
    go_on.set()
    assert await first == await second == tokenizer("a text")["input_ids"]
    # One that is at work is no other's, and is made once.
    assert seen[0] is seen[1] is not tokenizer


async def test_a_long_text_has_its_request_s_deadline() -> None:
    thread, go_on = TokenizerThread(), threading.Event()

    def work(given: PreTrainedTokenizerBase) -> bool:
        return go_on.wait(300)

    with pytest.raises(DeadlineExceededError, match=r"within 0\.01 seconds"):
        await thread.run(tiny_tokenizer(), LONG_TEXT + 1, work, 0.01)
    go_on.set()


async def test_many_short_texts_let_others_have_their_turn() -> None:
    thread, tokenizer, turns = TokenizerThread(), tiny_tokenizer(), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    length: Callable[[PreTrainedTokenizerBase], int] = len
    for _ in range(40):
        await thread.run(tokenizer, LONG_TEXT // 10, length)
    assert turns == 3
    task.cancel()
