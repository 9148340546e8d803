"""Work on many items at once, results in the items' order, memory bounded."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def ordered_map(
    items: Iterable[ItemT], work: Callable[[ItemT], Awaitable[ResultT]], window: int
) -> AsyncGenerator[ResultT, None]:
    """Results of `work` in order, at most `window` items begun and not yet given out.

    When one raises, those that were begun are waited for before its error goes on: what they pay
    for is kept.
    """
    begun: deque[asyncio.Future[ResultT]] = deque()
    try:
        for item in items:
            if len(begun) >= window:
                yield await begun[0]
                begun.popleft()
            begun.append(asyncio.ensure_future(work(item)))
        while begun:
            yield await begun[0]
            begun.popleft()
    finally:
        await asyncio.gather(*begun, return_exceptions=True)
