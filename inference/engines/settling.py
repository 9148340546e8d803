"""Requests side by side in engines that send each on its own."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from inference.engines.contract import Completion
from inference.engines.errors import EngineError

Outcome = Completion | EngineError


async def completions_of(calls: Iterable[Coroutine[Any, Any, Outcome]]) -> list[Completion]:
    """The completions of calls that give a failure as a value, in order.

    Raises the first EngineError once all calls are done.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    completions = []
    for task in tasks:
        outcome = task.result()
        if isinstance(outcome, EngineError):
            raise outcome
        completions.append(outcome)
    return completions
