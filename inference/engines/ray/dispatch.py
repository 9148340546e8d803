"""Which engine of a pool a request goes to, and what it costs a request that its engine died."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from inference.engines.contract import EngineError, Request

# Of token ids, as vLLM's cache has them, and of characters, which are about as much text.
BLOCK_IDS = 16
BLOCK_CHARACTERS = 64
MOST_BLOCKS_OF_A_PROMPT = 512
MOST_BLOCKS_OF_AN_ENGINE = 50_000
# A request that saw its engine die runs with a quarter of the company it had, and so on.
COMPANY_BITS = 2
MOST_DEATHS_ALONE = 3


def prefix_blocks(request: Request) -> tuple[int, ...]:
    """Return a hash of each beginning of a prompt, by whole blocks; what is shared is equal.

    An adapter or a soft prompt changes all of them: its keys and values are others.
    """
    whole: Sequence[Any] = request.input_ids or request.prompt or ""
    if request.messages is not None:
        whole = "\n".join(text for message in request.messages for text in message.values())
    size = BLOCK_CHARACTERS if isinstance(whole, str) else BLOCK_IDS
    cuts = range(0, len(whole) + 1, size)[: MOST_BLOCKS_OF_A_PROMPT + 1]
    blocks, last = [], hash((request.adapter, request.soft_prompt))
    for start, end in pairwise(cuts):
        last = hash((last, whole[start:end]))
        blocks.append(last)
    return tuple(blocks)


@dataclass(eq=False)
class Ticket:
    """A request on its way to a completion.

    blocks: of `prefix_blocks`. deaths: of engines that it ran on; deaths_alone: of these, those
    where nothing else ran, so that nothing else can have been the cause.
    """

    blocks: tuple[int, ...] = ()
    deaths: int = 0
    deaths_alone: int = 0

    def company(self, capacity: int) -> int:
        """Return among how many it may run, itself included."""
        return max(1, capacity >> (COMPANY_BITS * self.deaths))


@dataclass(eq=False)
class Seat:
    """One engine of the pool: what runs there, and the beginnings of prompts that it has read.

    capacity: the most requests that are with it at once. is_open: it answers. restarts: how often
    it was opened anew. lost: set where a request found it dead.
    """

    number: int
    capacity: int
    is_open: bool = True
    restarts: int = 0
    running: set[Ticket] = field(default_factory=set)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    _blocks: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def takes(self, ticket: Ticket) -> bool:
        """Tell whether the engine has room for a request, and its company is not too large."""
        together = min(ticket.company(self.capacity), *self._companies(), self.capacity)
        return self.is_open and len(self.running) < together

    def _companies(self) -> Iterator[int]:
        yield self.capacity
        for ticket in self.running:
            yield ticket.company(self.capacity)

    def held(self, blocks: Sequence[int]) -> int:
        """Return how many blocks of a prompt's beginning the engine has read."""
        for count, block in enumerate(blocks):
            if block not in self._blocks:
                return count
        return len(blocks)

    def add(self, ticket: Ticket) -> None:
        """Note that a request runs here."""
        self.running.add(ticket)
        for block in ticket.blocks:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > MOST_BLOCKS_OF_AN_ENGINE:
            self._blocks.popitem(last=False)

    def forget(self) -> None:
        """Note that the engine is another one, which has read nothing."""
        self._blocks.clear()


def best_seat(seats: Sequence[Seat], blocks: Sequence[int]) -> Seat:
    """Return who holds most of a prompt's beginning, of those about as free as the freest.

    seats: one or more that take the request.
    """
    least = min(len(seat.running) for seat in seats)
    near = [seat for seat in seats if len(seat.running) <= least + least // 4 + 1]
    return min(near, key=lambda seat: (-seat.held(blocks), len(seat.running), seat.number))


class Dispatcher:
    """Hands requests to engines in the order of arrival, those that are tried again first.

    What finds no room waits with its caller: an engine is never sent more than its capacity.
    """

    def __init__(self, seats: Sequence[Seat]) -> None:
        self.seats = list(seats)
        self._again: deque[tuple[Ticket, asyncio.Future[Seat]]] = deque()
        self._waiting: deque[tuple[Ticket, asyncio.Future[Seat]]] = deque()
        self._failed: EngineError | None = None

    async def take(self, ticket: Ticket) -> Seat:
        """Return the seat of a request once there is one; give it back with `leave`.

        Raises EngineError: no engine is left.
        """
        if self._failed is not None:
            raise self._failed
        granted: asyncio.Future[Seat] = asyncio.get_running_loop().create_future()
        (self._again if ticket.deaths else self._waiting).append((ticket, granted))
        self._grant()
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.leave(granted.result(), ticket)
            raise

    def leave(self, seat: Seat, ticket: Ticket) -> None:
        """Make a request's place free."""
        seat.running.discard(ticket)
        self._grant()

    def opened(self, seat: Seat) -> None:
        """Let requests go to an engine that was opened anew."""
        seat.is_open = True
        seat.lost.clear()
        seat.restarts += 1
        self._grant()

    def died(self, seat: Seat) -> None:
        """Note that an engine died, once a death, and under which requests."""
        if not seat.is_open:
            return
        seat.is_open = False
        seat.lost.set()
        seat.forget()
        for ticket in seat.running:
            ticket.deaths += 1
            ticket.deaths_alone += len(seat.running) == 1

    def remove(self, seat: Seat, error: EngineError) -> None:
        """Go on without an engine; without any, requests end with the error of the last."""
        self.died(seat)
        if seat in self.seats:
            self.seats.remove(seat)
        if not self.seats:
            self._failed = error
            for _, granted in (*self._again, *self._waiting):
                if not granted.done():
                    granted.set_exception(error)

    def restart(self) -> None:
        """Forget what waited and ran in an event loop that has ended."""
        self._again.clear()
        self._waiting.clear()
        for seat in self.seats:
            seat.running.clear()
            seat.lost = asyncio.Event()
            if not seat.is_open:
                seat.lost.set()

    def _grant(self) -> None:
        """Seat whom there is room for. One that needs few beside it keeps an engine from others."""
        kept_free: set[Seat] = set()
        for _ in range(len(self._again)):
            ticket, granted = self._again.popleft()
            if granted.done():
                continue
            free = [seat for seat in self.seats if seat not in kept_free]
            if self._seated(ticket, granted, free):
                continue
            self._again.append((ticket, granted))
            if emptying := [seat for seat in free if seat.is_open]:
                kept_free.add(min(emptying, key=lambda seat: (len(seat.running), seat.number)))
        free = [seat for seat in self.seats if seat not in kept_free]
        while self._waiting:
            ticket, granted = self._waiting[0]
            if not granted.done() and not self._seated(ticket, granted, free):
                return
            self._waiting.popleft()

    @staticmethod
    def _seated(ticket: Ticket, granted: asyncio.Future[Seat], seats: Sequence[Seat]) -> bool:
        able = [seat for seat in seats if seat.takes(ticket)]
        if not able:
            return False
        seat = best_seat(able, ticket.blocks)
        seat.add(ticket)
        granted.set_result(seat)
        return True
