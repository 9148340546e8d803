"""Asking an idle engine for one token, to see that it still answers."""

from inference.engines.contract import Engine, Health, Request, Sampling
from inference.engines.errors import EngineError

PROBE_SECONDS = 60.0


async def probe(engine: Engine, restarts: int = 0) -> Health:
    """The health of an engine that has nothing else to do; never raises EngineError."""
    request = Request(
        prompt="1", sampling=Sampling(max_new_tokens=1), deadline_seconds=PROBE_SECONDS
    )
    try:
        await engine.generate([request])
    except EngineError as error:
        return Health(False, f"{type(error).__name__}: {error}", restarts=restarts)
    return Health(True, seconds_since_progress=0.0, restarts=restarts)
