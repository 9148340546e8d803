"""Costs of loops, indexes and data builds by size, with a scripted perfect model: ours alone."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any

from benchmarks.growth_curves.fit import Curve
from benchmarks.scripted_world.gold_world import load_world
from benchmarks.scripted_world.loops import LOOPS, TITLE_WEIGHT, Settings, TopicWriters, WorldLoops
from benchmarks.scripted_world.scripted_engine import WIDE_HASH, open_encoder
from benchmarks.scripted_world.world_model import WorldModel
from benchmarks.workers.data_stages import prepare, run
from data_gen.build_world import build_world
from inference.loops.trace import Loop
from inference.retrieval.bm25 import Bm25Retriever
from inference.runs.evaluation import run_questions
from models.formats.records import QuestionRecord

SEED = 5
# Passages of a world whose size is not what grows, and questions asked of it.
PASSAGES = 1000
QUESTIONS = 64
MOST_QUESTIONS = 512
AT_ONCE = 16


class _World:
    """A world of so many passages, its loops, and its questions that need a fact."""

    def __init__(self, passages: int, questions: int = QUESTIONS) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "world"
            # A tenth of a world's questions need no fact and are left out.
            made = round(questions / 0.8) + 10
            build_world(made, SEED, folder, max(passages, 200), progress=False)
            world = load_world(folder)
            self.questions = [q for q in world.questions if q.evidences][:questions]
            topics = TopicWriters(world, folder)
        self.passages = world.passages
        self.loops = WorldLoops(world, topics, WorldModel(world), open_encoder(WIDE_HASH))

    async def open(self, name: str) -> Loop:
        """Return a loop, all that it searches built and its vectors known."""
        with tempfile.TemporaryDirectory() as temporary:
            return await self.loops.open(name, Settings(), Path(temporary) / "hierarchy")


_world = cache(_World)


async def _answered(name: str, world: _World, asked: Sequence[QuestionRecord], at: int) -> float:
    loop = await world.open(name)
    # Vectors of what is asked are computed once and remembered: no encoder is measured.
    await run_questions(loop, asked, at)
    started = time.perf_counter()
    await run_questions(loop, asked, at)
    return time.perf_counter() - started


def by_questions(name: str, questions: int) -> float:
    """A loop over a world of a thousand passages, by the questions asked."""
    world = _world(PASSAGES, MOST_QUESTIONS)
    return asyncio.run(_answered(name, world, world.questions[:questions], AT_ONCE))


def by_passages(name: str, passages: int) -> float:
    """A loop over 64 questions, by the passages of its corpus."""
    world = _world(passages)
    return asyncio.run(_answered(name, world, world.questions, AT_ONCE))


def by_concurrency(name: str, at_once: int) -> float:
    """A loop over 64 questions, by those that run at once."""
    world = _world(PASSAGES)
    return asyncio.run(_answered(name, world, world.questions, at_once))


def by_hops(name: str, hops: int) -> float:
    """A question, the mean of 24, by the facts that it needs."""
    world = _world(PASSAGES, MOST_QUESTIONS)
    asked = [q for q in world.questions if len(q.evidences) == hops][:24]
    return asyncio.run(_answered(name, world, asked, AT_ONCE)) / len(asked)


def built(build: Callable[[_World], Coroutine[Any, Any, None]], passages: int) -> float:
    """An index, by the passages of its corpus."""
    world = _World(passages, 10)
    started = time.perf_counter()
    asyncio.run(build(world))
    return time.perf_counter() - started


async def _propositions(world: _World) -> None:
    await world.loops.t2rag(await world.loops.triples(), Settings().t2rag)


async def _hierarchy(world: _World) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        await world.loops.hierarchy(Path(temporary) / "hierarchy")


async def _knowledge_base(world: _World) -> None:
    await world.loops.knowledge_base()


def bm25_build(passages: int) -> float:
    """The lexical index in memory, by its passages."""
    texts = _world(passages).passages
    started = time.perf_counter()
    Bm25Retriever(texts, TITLE_WEIGHT)
    return time.perf_counter() - started


def data_build(records: int) -> float:
    """A build of text-to-triples samples, by its records."""
    with tempfile.TemporaryDirectory() as temporary, redirect_stdout(StringIO()):
        prepare(Path(temporary), "triples", records)
        started = time.perf_counter()
        run(Path(temporary), "triples", "build")
        return time.perf_counter() - started


def _curve(
    unit: str, first: int, seconds: Callable[..., float], *given: Any, **named: Any
) -> Curve:
    """Return a curve of what needs no backbone; given: to `seconds` before the size."""
    named = {"possible": 1, **named}
    return Curve(unit, first=first, prepare=lambda _: partial(seconds, *given), **named)


CURVES = {
    **{f"{name}, questions": _curve("questions", 32, by_questions, name, most=MOST_QUESTIONS)
       for name in LOOPS},
    **{f"{name}, corpus": _curve("passages", 250, by_passages, name) for name in LOOPS},
    "ras, questions at once": _curve("questions", 1, by_concurrency, "ras", possible=0, most=64),
    **{f"{name}, hops": _curve("facts", 1, by_hops, name, sizes=(1, 2, 3, 4))
       for name in ("ras", "t2rag", "trig_nav")},
    "BM25 index, corpus": _curve("passages", 500, bm25_build),
    "proposition index, corpus": _curve("passages", 250, built, _propositions),
    "hierarchy, corpus": _curve("passages", 250, built, _hierarchy),
    "knowledge base, corpus": _curve("passages", 250, built, _knowledge_base),
    "data build, records": _curve("records", 500, data_build),
}  # fmt: skip
