"""What every engine says once it is closed."""

import asyncio

import pytest

from inference.engines.contract import Engine, EngineClosedError, Request, Sampling


async def assert_closing_ends_what_runs(engine: Engine, max_new_tokens: int) -> None:
    """Close an engine while it generates so many tokens; a second time too."""
    long = Request(prompt="On and on", sampling=Sampling(max_new_tokens))
    running = asyncio.create_task(engine.generate([long]))
    await asyncio.sleep(0.3)
    await engine.close()
    with pytest.raises(EngineClosedError):
        await running
    with pytest.raises(EngineClosedError):
        await engine.generate([Request(prompt="x")])
    assert not (await engine.health()).ok
    await engine.close()
