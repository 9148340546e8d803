"""What runs beside other work: the calls of a coroutine, and the processes over one folder."""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from common.errors import UserError

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


@contextmanager
def alone(folder: Path, refusal: UserError) -> Iterator[None]:
    """Keep a folder to one process while the block runs, by a lock file beside it.

    Raises `refusal` where another process has it.
    """
    # Resolved: one folder has one lock, however it is named.
    place = folder.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{place}.lock", timeout=0):
            yield
    except Timeout:
        raise refusal from None
