"""What a pool of engines decides without Ray: who runs where, who is given up, what is sent."""

import asyncio
import inspect
import pickle
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engines import contract
from inference.engines.contract import (
    DeadlineExceededError,
    EngineDiedError,
    EngineError,
    GenerationError,
    Request,
    Sampling,
    TransientError,
)
from inference.engines.ray.cluster import ClusterError, Share, connect, room, share_of
from inference.engines.ray.dispatch import (
    BLOCK_IDS,
    MOST_DEATHS_ALONE,
    Dispatcher,
    Seat,
    Ticket,
    best_seat,
    prefix_blocks,
)
from inference.engines.ray.folders import Folder
from inference.engines.ray.transport import Failure, Listener, to_send


async def pool(
    seats: list[Seat], requests: int, killers: set[int], strays: set[int]
) -> tuple[list[str], list[int]]:
    """Run requests on engines that die under killers, and now and then for nothing.

    strays: numbers of the turns in which an engine dies of something else. Returns what became of
    each request and the most that ran on each seat.
    """
    dispatcher, turn = Dispatcher(seats), 0
    most = [0] * len(seats)

    async def reopen(seat: Seat) -> None:
        await asyncio.sleep(0)
        dispatcher.opened(seat)

    async def run(number: int) -> str:
        nonlocal turn
        ticket = Ticket()
        while ticket.deaths_alone < MOST_DEATHS_ALONE:
            seat = await dispatcher.take(ticket)
            most[seat.number] = max(most[seat.number], len(seat.running))
            companies = [other.company(seat.capacity) for other in seat.running]
            # Where it died at once, they have seen a death more than when they were let in.
            assert not seat.is_open or len(seat.running) <= min(companies)
            deaths = seat.restarts
            await asyncio.sleep(0)
            turn += 1
            if seat.is_open and deaths == seat.restarts and (number in killers or turn in strays):
                dispatcher.died(seat)
                asyncio.get_running_loop().call_soon(asyncio.ensure_future, reopen(seat))
            died = not seat.is_open or deaths != seat.restarts
            dispatcher.leave(seat, ticket)
            if not died:
                return "done"
        return "given up"

    outcomes = await asyncio.gather(*map(run, range(requests)))
    assert all(not seat.running for seat in seats)
    return list(outcomes), most


@given(data=st.data())
def test_a_request_that_kills_is_given_up_and_no_other(data: st.DataObject) -> None:
    requests = data.draw(st.integers(1, 30))
    capacities = data.draw(st.lists(st.integers(1, 16), min_size=1, max_size=4))
    killers = data.draw(st.sets(st.integers(0, requests - 1), max_size=3))
    seats = [Seat(number, capacity) for number, capacity in enumerate(capacities)]
    outcomes, most = asyncio.run(pool(seats, requests, killers, set()))
    assert outcomes == ["given up" if n in killers else "done" for n in range(requests)]
    assert all(ran <= capacity for ran, capacity in zip(most, capacities, strict=True))
    # Each death of a killer makes its company a quarter, and alone it has three.
    assert sum(seat.restarts for seat in seats) <= len(killers) * (MOST_DEATHS_ALONE + 2)


@given(strays=st.sets(st.integers(1, 60), max_size=20))
def test_engines_that_die_cost_retries_and_no_results(strays: set[int]) -> None:
    outcomes, _ = asyncio.run(pool([Seat(n, 8) for n in range(3)], 40, set(), strays))
    assert outcomes.count("done") >= 40 - len(strays) // MOST_DEATHS_ALONE


def test_a_prompt_s_beginning_is_known_again() -> None:
    ids = tuple(range(100, 100 + 3 * BLOCK_IDS))
    first = prefix_blocks(Request(input_ids=ids))
    longer = prefix_blocks(Request(input_ids=(*ids, 1, 2, 3)))
    assert len(first) == 3 and longer == first
    other = prefix_blocks(Request(input_ids=(*ids[:20], 9, *ids[21:])))
    assert other[0] == first[0] and not set(other[1:]) & set(first[1:])
    for changed in ({"adapter": "ras"}, {"soft_prompt": "soft"}):
        assert not set(prefix_blocks(Request(input_ids=ids, **changed))) & set(first)
    text = "Where was Ada born? " * 20
    assert (
        prefix_blocks(Request(prompt=text + "Rome"))[:5] == prefix_blocks(Request(prompt=text))[:5]
    )
    chat = ({"role": "user", "content": text},)
    assert len(prefix_blocks(Request(messages=chat))) == len(prefix_blocks(Request(prompt=text)))
    assert prefix_blocks(Request(prompt="")) == ()


def test_the_rounds_of_a_question_go_to_one_engine_unless_it_is_busy() -> None:
    seats = [Seat(n, 8) for n in range(3)]
    shared, own = (1, 2), (1, 2, 30, 31)
    for seat in seats:
        seat.add(Ticket(shared))
    assert best_seat(seats, own).number == 0
    seats[2].add(Ticket(own))
    assert best_seat(seats, (*own, 32)) is seats[2]
    for _ in range(5):
        seats[2].add(Ticket())
    assert best_seat(seats, (*own, 32)) is not seats[2]
    seats[2].running.clear()
    seats[2].forget()
    assert seats[2].held(own) == 0


async def test_without_an_engine_all_who_wait_are_told() -> None:
    seat = Seat(0, 1)
    dispatcher = Dispatcher([seat])
    first = Ticket()
    assert await dispatcher.take(first) is seat
    waiting = asyncio.create_task(dispatcher.take(Ticket()))
    await asyncio.sleep(0)
    dispatcher.remove(seat, EngineDiedError("no more"))
    for call in (waiting, dispatcher.take(Ticket())):
        with pytest.raises(EngineDiedError, match="no more"):
            await call


async def test_one_who_leaves_the_queue_leaves_no_place_taken() -> None:
    seat = Seat(0, 1)
    dispatcher = Dispatcher([seat])
    first, second = Ticket(), Ticket()
    await dispatcher.take(first)
    waiting = [asyncio.create_task(dispatcher.take(t)) for t in (Ticket(), second)]
    await asyncio.sleep(0)
    dispatcher.leave(seat, first)
    # Granted, and cancelled before it knows.
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    assert await waiting[1] is seat
    assert seat.running == {second}


def errors() -> list[EngineError]:
    """One of each class of the contract."""
    classes = [
        found for _, found in inspect.getmembers(contract, inspect.isclass)
        if issubclass(found, EngineError)
    ]  # fmt: skip
    plain = [c("said why") for c in classes if c is not DeadlineExceededError]
    return [*plain, DeadlineExceededError(0.5), TransientError("busy", 3.5, True)]


@pytest.mark.parametrize("error", errors(), ids=lambda error: type(error).__name__)
def test_an_error_keeps_its_class_message_and_attributes(error: EngineError) -> None:
    error.__cause__ = ValueError("not sent")
    vars(error)["engine"] = object()
    sent = pickle.loads(pickle.dumps(Failure.of(error)))
    back = sent.error()
    assert type(back) is type(error) and str(back) == str(error)
    kept = {name: value for name, value in vars(error).items() if name != "engine"}
    assert vars(back) == kept


@given(text=st.text(max_size=30), data=st.data())
def test_a_text_is_heard_once_however_often_it_is_begun(text: str, data: st.DataObject) -> None:
    heard: list[str] = []
    listener = Listener(heard.append)
    lengths = st.integers(0, len(text))
    for end in [*data.draw(st.lists(lengths, max_size=4)), len(text)]:
        cuts = sorted({0, end, *data.draw(st.lists(st.integers(0, end), max_size=4))})
        listener.begin()
        for start, stop in pairwise(cuts):
            listener.hear(text[start:stop])
    assert "".join(heard) == text
    assert "" not in heard


def test_another_text_in_place_of_one_begun_is_an_error() -> None:
    listener = Listener(lambda piece: None)
    listener.begin()
    listener.hear("Ada was")
    listener.begin()
    with pytest.raises(GenerationError, match="another text"):
        listener.hear("Ben")


def test_what_draws_tokens_is_sent_with_a_seed() -> None:
    drawn = to_send(Request(prompt="x", sampling=Sampling(temperature=1.0), on_text=print))
    assert drawn.sampling.seed is not None and drawn.on_text is None
    for sampling in (Sampling(), Sampling(temperature=1.0, seed=3)):
        assert to_send(Request(prompt="x", sampling=sampling)).sampling == sampling


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of several sizes, and a cache of its own."""
    monkeypatch.setenv("TRIVIUM_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "model"
    (made / "deep").mkdir(parents=True)
    for name, size in (("a.bin", 1000), ("deep/b.bin", 3), ("empty", 0)):
        (made / name).write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    return made


async def test_a_folder_that_a_node_lacks_is_sent_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.engines.ray.folders.PIECE_BYTES", 300)
    here = Folder.read(folder)
    assert here.found() == folder
    there = replace(here, path=Path("/nowhere/model"))
    assert there.found() is None

    async def pieces() -> AsyncIterator[tuple[str, bytes]]:
        for piece in here.pieces():
            yield piece

    kept = await there.keep(pieces)
    assert kept.name == "model" and there.found() == kept
    assert Folder.read(kept).files == here.files
    (kept / "a.bin").write_bytes(b"y" * 1000)
    assert there.found() is None
    assert await there.keep(pieces) == kept and there.found() == kept


async def test_a_folder_that_changed_on_the_way_is_not_kept(folder: Path) -> None:
    there = replace(Folder.read(folder), path=Path("/nowhere/model"))

    async def pieces() -> AsyncIterator[tuple[str, bytes]]:
        yield "a.bin", b"other"

    with pytest.raises(EngineError, match=r"model is not what it was.*Start again"):
        await there.keep(pieces)
    assert there.found() is None


nodes_drawn = st.lists(
    st.fixed_dictionaries({"CPU": st.integers(0, 64), "GPU": st.integers(0, 8)}), max_size=5
)


@given(nodes=nodes_drawn, engines=st.integers(1, 20), gpus=st.sampled_from([0.0, 1.0, 2.0]))
def test_engines_share_what_the_nodes_have(
    nodes: list[dict[str, float]], engines: int, gpus: float
) -> None:
    try:
        share = share_of(nodes, engines, None, gpus)
    except ClusterError as error:
        assert room(nodes, Share(1, gpus)) < engines
        assert f"has room for {room(nodes, Share(1, gpus))}" in str(error)
        return
    assert room(nodes, share) >= engines
    assert room(nodes, Share(share.cpus + 1, gpus)) < engines
    assert share_of(nodes, engines, share.cpus, gpus) == share


def test_parts_of_a_cpu_are_counted() -> None:
    assert room([{"CPU": 2.0}], Share(0.1)) == 20
    with pytest.raises(ClusterError, match=r"3 engines of 1 CPUs and 1 GPUs.*has room for 2"):
        share_of([{"CPU": 8, "GPU": 2}], 3, 1, 1.0)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("127.0.0.1:9", r"no Ray cluster at 127.0.0.1:9 .*ray start --head"),
        ("ray://127.0.0.1:10001", r"give HOST:PORT of the head, and run the command on a node"),
        ("head", r"give HOST:PORT of the head"),
        ("127.0.0.1:99999", r"no Ray cluster at 127.0.0.1:99999"),
    ],
)
def test_an_address_without_a_cluster(address: str, told: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    with pytest.raises(ClusterError, match=told):
        connect(address)
