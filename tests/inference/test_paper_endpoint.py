"""Any endpoint under --preset paper: every prompt that leaves the machine is the paper's."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.scripted_world.gold_world import GoldWorld, make_world
from benchmarks.scripted_world.loops import TopicWriters, WorldLoops
from benchmarks.scripted_world.scripted_engine import ScriptedEngine, prompt_text
from benchmarks.scripted_world.world_model import WorldModel
from inference.engines.contract import EngineOptions, Request
from inference.indexes.hierarchy.store import HierarchyStore
from inference.indexes.hierarchy.topics import INDEXER
from inference.indexes.propositions.index import PropositionIndex
from inference.loops.kind import LoopKind
from inference.opening.loop import LOOPS, open_loop
from inference.runs.evaluation import run_questions
from models.files.sentence_encoder import SentenceEncoder, load_sentence_encoder
from models.formats.paper_prompts import read_filled
from tests.inference.local_server import local_server

# What each loop asks for a question of two facts in a row, at least once each.
ASKED = {
    "ras": {"ras_plan", "ras_triples", "ras_answer"},
    "t2rag": {"t2rag_decompose", "t2rag_resolve", "t2rag_answer"},
    "th_rag": {"th_rag_topics", "th_rag_subtopics", "th_rag_answer"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paper")


@pytest.fixture(scope="module")
def world(folder: Path) -> GoldWorld:
    return make_world(folder / "world", questions=60)


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return load_sentence_encoder("hash")


@pytest.fixture(scope="module")
def indexes(world: GoldWorld, encoder: SentenceEncoder, folder: Path) -> dict[str, Path]:
    """Propositions and a hierarchy of the world, from its gold facts."""

    async def build() -> None:
        topics = TopicWriters(world, folder / "world")
        loops = WorldLoops(world, topics, WorldModel(world), encoder)
        propositions = PropositionIndex(encoder)
        part = propositions.add(await loops.triples())
        propositions.save_part(folder / "propositions", part, "world")
        before = len(loops.engine.requests)
        await loops.hierarchy(folder / "hierarchy", prompts="paper")
        indexing = loops.engine.requests[before:]
        assert asked_by(indexing) == {"th_rag_triplets": len(indexing)} and indexing

    asyncio.run(build())
    store = HierarchyStore(folder / "hierarchy")
    store.note({INDEXER: "prompted world"})
    store.close()
    return {name: folder / name for name in ("propositions", "hierarchy")}


def asked_by(requests: Sequence[Request]) -> Counter[str | None]:
    """How many of the requests are each of the papers' prompts; None for another."""
    return Counter(found and found[0] for found in map(read_filled, map(prompt_text, requests)))


@pytest.mark.parametrize("loop", ASKED)
async def test_every_prompt_is_the_papers_own(
    loop: str, world: GoldWorld, indexes: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    topics = TopicWriters(world, folder / "world")
    engine = ScriptedEngine(topics.attach(WorldModel(world)))
    kind: LoopKind = LOOPS[loop]  # type: ignore[type-arg]
    given = {"ras": None, "t2t": None, "preset": "paper", "encoder": "hash",
             "cache": tmp_path / "triples.sqlite", "backbone": "world"}  # fmt: skip
    own: dict[str, object] = {n: path for n, path in indexes.items() if n == kind.index}
    if loop == "th_rag":
        # The world's topics have three subtopics at most, and a list of fewer than the least
        # is taken whole without a call.
        own["most_subtopics"] = 1
    records = [r for r in world.questions if r.type == "bridge" and len(r.evidences) == 2][:3]
    async with local_server(engine, "world") as address:
        endpoint = EngineOptions(kind="openai", base_url=address)
        options = kind.options(**{**kind.paper, **given, **own, "loop": loop, "engine": endpoint})
        opened = open_loop(options, world.passages)
        try:
            traces = await run_questions(opened.loop, records, concurrency=3)
        finally:
            await opened.close()
    assert [trace.error for trace in traces] == [None] * len(records)
    asked = asked_by(engine.requests)
    assert None not in asked and set(asked) == ASKED[loop], asked
    assert len(engine.requests) == sum(asked.values()) == sum(t.bill.llm_calls for t in traces)
