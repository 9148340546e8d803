"""Costs of loops, indexes and data builds by size, with a scripted perfect model: ours alone."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

from benchmarks.growth_curves.fit import Curve
from benchmarks.scripted_world.gold_world import load_world
from benchmarks.scripted_world.loops import Settings, TopicWriters, WorldLoops
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


def by_questions(name: str) -> Callable[[str], Callable[[int], float]]:
    """A loop over a world of a thousand passages, by the questions asked."""

    def prepare_it(backbone: str) -> Callable[[int], float]:
        def seconds(questions: int) -> float:
            world = _world(PASSAGES, 512)
            return asyncio.run(_answered(name, world, world.questions[:questions], AT_ONCE))

        return seconds

    return prepare_it


def by_passages(name: str) -> Callable[[str], Callable[[int], float]]:
    """A loop over 64 questions, by the passages of its corpus."""

    def prepare_it(backbone: str) -> Callable[[int], float]:
        def seconds(passages: int) -> float:
            world = _world(passages)
            return asyncio.run(_answered(name, world, world.questions, AT_ONCE))

        return seconds

    return prepare_it


def by_concurrency(backbone: str) -> Callable[[int], float]:
    """RAS over 64 questions, by those that run at once."""

    def seconds(at_once: int) -> float:
        world = _world(PASSAGES)
        return asyncio.run(_answered("ras", world, world.questions, at_once))

    return seconds


def by_hops(name: str) -> Callable[[str], Callable[[int], float]]:
    """A loop over 24 questions, by the facts that each needs."""

    def prepare_it(backbone: str) -> Callable[[int], float]:
        def seconds(hops: int) -> float:
            world = _world(PASSAGES, 512)
            asked = [q for q in world.questions if len(q.evidences) == hops][:24]
            taken = asyncio.run(_answered(name, world, asked, AT_ONCE))
            return taken / len(asked)

        return seconds

    return prepare_it


def _built(build: Callable[[_World], Awaitable[object]]) -> Callable[[str], Callable[[int], float]]:
    def prepare_it(backbone: str) -> Callable[[int], float]:
        def seconds(passages: int) -> float:
            world = _World(passages, 10)
            started = time.perf_counter()
            asyncio.run(_awaited(build(world)))
            return time.perf_counter() - started

        return seconds

    return prepare_it


async def _awaited(work: Awaitable[object]) -> None:
    await work


async def _propositions(world: _World) -> None:
    await world.loops.t2rag(await world.loops.triples(), Settings().t2rag)


async def _hierarchy(world: _World) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        await world.loops.hierarchy(Path(temporary) / "hierarchy")


async def _knowledge_base(world: _World) -> None:
    await world.loops.knowledge_base()


def bm25_build(backbone: str) -> Callable[[int], float]:
    """The lexical index in memory, by its passages."""

    def seconds(passages: int) -> float:
        texts = _world(passages).passages
        started = time.perf_counter()
        Bm25Retriever(texts, 5)
        return time.perf_counter() - started

    return seconds


def data_build(backbone: str) -> Callable[[int], float]:
    """A build of text-to-triples samples, by its records."""

    def seconds(records: int) -> float:
        with tempfile.TemporaryDirectory() as temporary, redirect_stdout(StringIO()):
            prepare(Path(temporary), "triples", records)
            started = time.perf_counter()
            run(Path(temporary), "triples", "build")
            return time.perf_counter() - started

    return seconds


LOOPS = ("ras", "tri_rag", "t2rag", "th_rag", "trig_nav")
CURVES = {
    **{f"{name}, questions": Curve("questions", 1, 32, by_questions(name), 512) for name in LOOPS},
    **{f"{name}, corpus": Curve("passages", 1, 250, by_passages(name)) for name in LOOPS},
    "ras, questions at once": Curve("questions", 0, 1, by_concurrency, 64),
    **{
        f"{name}, hops": Curve("facts", 1, 1, by_hops(name), sizes=(1, 2, 3, 4))
        for name in ("ras", "t2rag", "trig_nav")
    },
    "BM25 index, corpus": Curve("passages", 1, 500, bm25_build),
    "proposition index, corpus": Curve("passages", 1, 250, _built(_propositions)),
    "hierarchy, corpus": Curve("passages", 1, 250, _built(_hierarchy)),
    "knowledge base, corpus": Curve("passages", 1, 250, _built(_knowledge_base)),
    "data build, records": Curve("records", 1, 500, data_build),
}
