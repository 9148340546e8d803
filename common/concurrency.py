"""Calls of a coroutine that run beside each other."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

ResultT = TypeVar("ResultT")


async def at_once(
    calls: Iterable[Awaitable[ResultT]], into: list[ResultT] | None = None
) -> list[ResultT]:
    """Return what calls that run beside each other come to, in their order.

    into: gets it too, also that of the others where one fails. Raises the first failure once all
    have ended, so that none runs on behind it and what the others cost is known.
    """
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    results = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    if into is not None:
        into += results
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return results
