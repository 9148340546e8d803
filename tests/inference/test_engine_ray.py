"""A pool of engines on Ray: errors, streams, deaths and bounds, with engines that have no model."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inference.engines.contract import (
    DeadlineExceededError,
    Engine,
    EngineClosedError,
    EngineDiedError,
    EngineOptions,
    GenerationError,
    InvalidRequestError,
    PromptTooLongError,
    Request,
    TransientError,
    UnsupportedRequestError,
)
from inference.opening.engine import build_engine
from models.files.checkpoint import NotACheckpointError, TruncatedCheckpointError
from tests.components import t2t_component
from tests.tiny import tiny_backbone

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

import ray

from inference.engines.ray.cluster import ClusterError
from inference.engines.ray.engine import MOST_DEATHS_ALONE, RayEngine
from inference.engines.ray.folders import Folder
from tests.inference.pool_engines import echo, out_of_memory, truncated
from tests.inference.ray_cluster import echo_pool, ray_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.asyncio(loop_scope="module"),
]
ENGINES = 2


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_backbone(tmp_path_factory.mktemp("pool") / "tiny")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of one node."""
    with ray_cluster(1, cpus=4) as started:
        yield started.address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(backbone: Path, cluster: str) -> AsyncIterator[Engine]:
    pool = echo_pool(backbone, ENGINES, ray_address=cluster, max_batch_size=8)
    yield pool
    await pool.close()


async def texts(engine: Engine, *prompts: str) -> list[str]:
    done = await engine.generate([Request(prompt=prompt) for prompt in prompts])
    return [completion.text for completion in done]


async def test_requests_are_dealt_to_all_engines(engine: Engine) -> None:
    prompts = [f"sleep 0.{n % 3}" for n in range(40)]
    told = await texts(engine, *prompts)
    assert [text.partition(": ")[2] for text in told] == prompts
    processes = [text.partition(": ")[0] for text in told]
    assert len(set(processes)) == ENGINES
    assert 10 <= processes.count(processes[0]) <= 30


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        ("invalid", InvalidRequestError, "two prompts"),
        ("long", PromptTooLongError, "9 tokens, 8 fit"),
        ("busy", TransientError, "come again"),
        ("late", DeadlineExceededError, "not answered within 0.25 seconds"),
        ("broken", GenerationError, "generation failed: RuntimeError: a defect"),
    ],
)
async def test_errors_keep_their_classes(
    engine: Engine, word: str, kind: type[Exception], message: str
) -> None:
    for on_text in (None, print):
        with pytest.raises(kind) as raised:
            await engine.generate([Request(prompt=word, on_text=on_text)])
        assert type(raised.value) is kind and str(raised.value) == message
    if isinstance(raised.value, TransientError):
        assert (raised.value.retry_after, raised.value.may_be_billed) == (2.5, True)


async def test_a_failure_is_no_neighbour_s(engine: Engine) -> None:
    calls = [engine.generate([Request(prompt=word)]) for word in ("one", "broken", "two")]
    one, failed, two = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(failed, GenerationError)
    assert [one[0].text[-3:], two[0].text[-3:]] == ["one", "two"]


async def test_an_engine_that_dies_costs_a_retry(engine: Engine, tmp_path: Path) -> None:
    before = (await engine.health()).restarts
    prompts = [f"die_once {tmp_path / 'a'}", *(f"sleep 0.{n}" for n in range(1, 8))]
    prompts.append(f"end_of_process {tmp_path / 'b'}")
    told = await texts(engine, *prompts)
    assert [text.partition(": ")[2] for text in told] == prompts
    assert (await restarted(engine, before + 2)) == before + 2


async def test_an_engine_that_was_started_again_unnoticed_is_opened_first(
    cluster: str, backbone: Path
) -> None:
    pool = echo_pool(backbone, ray_address=cluster)
    [actor] = pool._pool.actors
    await texts(pool, "first")
    watchers, pool._watchers = pool._watchers, []
    for task in watchers:
        task.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    ray.kill(actor, no_restart=False)
    await started_again(actor)
    for heard in (None, print):
        [done] = await pool.generate([Request(prompt="second", on_text=heard)])
        assert done.text.endswith("second")
    assert (await pool.health()).restarts == 1
    await pool.close()


async def started_again(actor: Any) -> None:
    """Wait until an actor that was killed runs without an engine."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(ray.exceptions.RayActorError):
            if not (await actor.health.remote()).ok:
                return
        await asyncio.sleep(0.2)
    raise AssertionError("it was not started again")


async def restarted(engine: Engine, times: int) -> int:
    """Wait until engines were opened so often again; how often they were."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        health = await engine.health()
        if health.restarts >= times and not health.reason:
            break
        await asyncio.sleep(0.2)
    assert health.ok, health
    return health.restarts


async def test_a_request_that_kills_each_time_is_given_up_and_the_rest_goes_on(
    engine: Engine,
) -> None:
    before = (await engine.health()).restarts
    killer = asyncio.create_task(engine.generate([Request(prompt="die")]))
    rest = await texts(engine, *(f"sleep 0.{n % 10}" for n in range(30)))
    assert len(rest) == 30
    with pytest.raises(EngineDiedError, match="it is given up"):
        await killer
    # Capacity 16: among 16, 4 and 1, and then alone.
    deaths = await restarted(engine, before + MOST_DEATHS_ALONE)
    assert MOST_DEATHS_ALONE <= deaths - before <= MOST_DEATHS_ALONE + 2
    assert (await texts(engine, "still there"))[0].endswith("still there")


async def test_a_stream_comes_in_pieces_and_goes_on_after_a_death(
    engine: Engine, tmp_path: Path
) -> None:
    heard: list[str] = []
    prompt = f"stutter {tmp_path / 'once'} a b c d"
    [done] = await engine.generate([Request(prompt=prompt, on_text=heard.append)])
    assert "".join(heard) == done.text == prompt
    assert len(heard) == len(prompt.split(" "))
    changed = Request(prompt=f"stutter {tmp_path / 'twice'} PID b c d", on_text=heard.append)
    with pytest.raises(GenerationError, match="another text than the one whose beginning"):
        await engine.generate([changed])


async def test_deadlines_and_cancellation_reach_the_engine(engine: Engine) -> None:
    for on_text in (None, print):
        request = Request(prompt="sleep 60", on_text=on_text, deadline_seconds=0.2)
        with pytest.raises(DeadlineExceededError, match=r"0\.2 seconds"):
            await engine.generate([request])
        call = asyncio.create_task(engine.generate([replace(request, deadline_seconds=None)]))
        await asyncio.sleep(0.2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    end = time.monotonic() + 20
    while await running_in_engines(engine) and time.monotonic() < end:
        await asyncio.sleep(0.1)
    assert await running_in_engines(engine) == 0
    assert (await engine.health()).running == 0


async def running_in_engines(engine: Engine) -> int:
    assert isinstance(engine, RayEngine)
    states = [await actor.health.remote() for actor in engine._pool.actors]
    return sum(state.running for state in states)


async def test_no_engine_is_sent_more_than_it_takes(engine: Engine) -> None:
    assert isinstance(engine, RayEngine)
    await restarted(engine, 0)  # those that an earlier test killed
    calls = [asyncio.create_task(texts(engine, "sleep 60")) for _ in range(50)]
    end = time.monotonic() + 50
    while await running_in_engines(engine) < 32 and time.monotonic() < end:
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.3)
    assert [len(seat.running) for seat in engine._dispatcher.seats] == [16, 16]
    assert await running_in_engines(engine) == 32
    assert (await engine.health()).running == 50
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert (await engine.health()).running == 0


async def test_a_folder_that_the_nodes_lack_is_sent(
    backbone: Path, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    component = t2t_component(tmp_path / "t2t", backbone)
    read = Folder.read.__func__

    class Elsewhere(Folder):
        """A folder that only this process has under its path."""

        def found(self) -> Path | None:
            kept = self._kept_at()
            return kept if self._is_at(kept) else None

    monkeypatch.setattr(Folder, "read", classmethod(lambda cls, path: read(Elsewhere, path)))
    options = EngineOptions("ray", engine_cpus=0.1, ray_address=cluster)
    pool = RayEngine(echo, options, str(backbone), {"t2t": component})
    try:
        [place] = await texts(pool, "folder t2t")
    finally:
        await pool.close()
    sent = Path(place.partition(": ")[2])
    assert sent != component
    monkeypatch.undo()
    assert Folder.read(sent).files == Folder.read(component).files


async def test_what_keeps_an_engine_from_opening_is_raised_as_it_is(
    backbone: Path, cluster: str, tmp_path: Path
) -> None:
    options = EngineOptions("ray", engine_cpus=0.1, ray_address=cluster)
    with pytest.raises(TruncatedCheckpointError, match="a file is cut short"):
        RayEngine(truncated, options, str(backbone))
    with pytest.raises(EngineDiedError, match="died as it was opened"):
        RayEngine(out_of_memory, options, str(backbone))
    with pytest.raises(NotACheckpointError, match="no such folder"):
        RayEngine(echo, options, str(backbone), {"t2t": tmp_path / "gone"})
    with pytest.raises(ClusterError, match=r"9 engines of 1 CPUs each.*room for 4.*4 CPUs"):
        RayEngine(echo, replace(options, engines=9, engine_cpus=1), str(backbone))
    with pytest.raises(ClusterError, match=r"uses the Ray cluster .* already"):
        RayEngine(echo, replace(options, ray_address="127.0.0.1:9"), str(backbone))
    with pytest.raises(UnsupportedRequestError, match="3 engines are asked for"):
        build_engine(EngineOptions("transformers", engines=3), str(backbone))


async def test_an_engine_that_opens_no_more_is_given_up(cluster: str, backbone: Path) -> None:
    pool = echo_pool(backbone, ray_address=cluster)
    [actor] = pool._pool.actors
    await texts(pool, "first")
    ray.kill(actor, no_restart=True)
    with pytest.raises(EngineDiedError, match="Ray starts it no more"):
        await texts(pool, "second")
    health = await pool.health()
    assert (health.ok, health.reason) == (False, "no engine is left")
    await pool.close()


async def test_what_runs_at_the_close_ends_so(cluster: str, backbone: Path) -> None:
    pool = echo_pool(backbone, ray_address=cluster, max_batch_size=1)
    calls = [asyncio.create_task(texts(pool, "sleep 60")) for _ in range(5)]
    await asyncio.sleep(0.5)
    await pool.close()
    for call in calls:
        with pytest.raises(EngineClosedError):
            await call
    with pytest.raises(EngineClosedError):
        await texts(pool, "x")
    assert not (await pool.health()).ok
    await pool.close()


async def test_it_goes_on_in_another_event_loop(cluster: str, backbone: Path) -> None:
    pool = echo_pool(backbone, ray_address=cluster)

    def in_turn() -> list[list[str]]:
        return [asyncio.run(texts(pool, "again")) for _ in range(2)]

    told = await asyncio.to_thread(in_turn)
    assert [text.endswith("again") for [text] in told] == [True, True]
    await pool.close()
