"""Calls that read the same passages share their requests, which end with the last that waits."""

import asyncio
import gc
from collections.abc import Sequence

import pytest

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import Completion, EngineClosedError, GenerationError, Request
from inference.indexes.cost import Bill
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.retrieval.passages import Passage
from models.formats.triples import Triple

PASSAGES = [Passage(str(n), f"Film {n}", "A film.") for n in range(5)]
FOUND = [[Triple(passage.title, "kind", "film")] for passage in PASSAGES]


class HeldEngine(ScriptedEngine):
    """Answers once it is let go on, and counts what was cancelled before."""

    def __init__(self) -> None:
        super().__init__(lambda request: f"(S> {request.prompt}| P> kind| O> film)")
        self.go_on = asyncio.Event()
        self.fails: set[str] = set()
        self.cancelled = 0
        self.when_cancelled: Exception | None = None

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        [request] = requests
        self.requests.append(request)
        if request.prompt in self.fails:
            raise GenerationError("cannot be read")
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            if self.when_cancelled is not None:
                raise self.when_cancelled from None
            raise
        return [self._complete(request)]


def make_extractor(engine: HeldEngine) -> TripleExtractor:
    return TripleExtractor(engine, lambda p: Request(prompt=p.title), TripleCache(None, "m"))


async def turns(count: int = 9) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_nobody_waits_for_is_cancelled() -> None:
    engine, bill = HeldEngine(), Bill()
    extractor = make_extractor(engine)
    only = asyncio.create_task(extractor.extract(PASSAGES, bill))
    await turns()
    assert len(engine.requests) == 5
    only.cancel()
    await asyncio.wait([only])
    await turns()
    engine.go_on.set()
    await turns()
    assert engine.cancelled == 5 and only.cancelled()
    assert (len(extractor.cache), bill.llm_calls, extractor._running) == (0, 0, {})


async def test_a_deadline_cancels_as_a_caller_that_leaves() -> None:
    engine = HeldEngine()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(make_extractor(engine).extract(PASSAGES), 0.01)
    await turns()
    assert engine.cancelled == 5


@pytest.mark.parametrize("first_leaves", [True, False])
async def test_what_another_waits_for_goes_on(first_leaves: bool) -> None:
    engine = HeldEngine()
    extractor = make_extractor(engine)
    both = [asyncio.create_task(extractor.extract(PASSAGES[:n])) for n in (4, 5)]
    leaves, stays = both if first_leaves else reversed(both)
    await turns()
    leaves.cancel()
    await turns()
    # The fifth passage is of the second call alone.
    assert engine.cancelled == (0 if first_leaves else 1)
    engine.go_on.set()
    assert await stays == FOUND[: 5 if first_leaves else 4]
    assert len(engine.requests) == 5 and not extractor._running


@pytest.mark.parametrize("between", range(5))
@pytest.mark.parametrize("comes_first", [True, False])
async def test_a_newcomer_is_never_handed_what_is_being_cancelled(
    comes_first: bool, between: int
) -> None:
    engine = HeldEngine()
    extractor, known = make_extractor(engine), list[str]()
    extractor.on_known = lambda passage, triples: known.append(passage.id)
    leaves = asyncio.create_task(extractor.extract(PASSAGES))
    await turns()
    if comes_first:
        comes = asyncio.create_task(extractor.extract(PASSAGES))
        await turns(between)
        leaves.cancel()
    else:
        leaves.cancel()
        await turns(between)
        comes = asyncio.create_task(extractor.extract(PASSAGES))
    await turns()
    engine.go_on.set()
    assert await comes == FOUND
    # What it began itself is its own, what it joined is known to others.
    own = len(engine.requests) - 5
    assert engine.cancelled == own and own in (0, 5) and len(known) == 5 - own


async def test_a_failure_is_raised_once_all_have_ended_and_what_they_gave_is_kept() -> None:
    engine, bill = HeldEngine(), Bill()
    extractor = make_extractor(engine)
    engine.fails = {"Film 1"}
    call = asyncio.create_task(extractor.extract(PASSAGES, bill))
    await turns()
    assert not call.done()
    # One that has failed is asked for again, also while the call that it failed for still waits.
    engine.fails = set()
    again = asyncio.create_task(extractor.extract(PASSAGES))
    await turns()
    engine.go_on.set()
    with pytest.raises(GenerationError, match="cannot be read"):
        await call
    assert await again == FOUND
    assert (len(engine.requests), len(extractor.cache), bill.llm_calls) == (6, 5, 4)


async def test_an_engine_that_fails_what_is_cancelled_is_not_complained_of() -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: complaints.append(context["message"])
    )
    engine = HeldEngine()
    engine.when_cancelled = EngineClosedError("the engine is closed")
    call = asyncio.create_task(make_extractor(engine).extract(PASSAGES))
    await turns()
    call.cancel()
    await turns()
    gc.collect()
    assert engine.cancelled == 5 and complaints == []
