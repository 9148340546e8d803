"""Triples of passages by the text-to-triples model, no passage ever twice (RAS eq. 4)."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from inference.engines.contract import Completion, Constraint, Engine, Request
from inference.retrieval.passages import Passage
from inference.triple_cache import TripleCache, passage_key
from models.formats.triples import Triple, parse_triples

RequestMaker = Callable[[Passage], Request]
ItemT = TypeVar("ItemT")
# What an extractor that is held to its grammar adds to its fingerprint.
HELD = "+grammar"


def chunks(items: Sequence[ItemT], size: int) -> Iterator[Sequence[ItemT]]:
    """Slices of `size`: as many as may wait at the engine at once, so that it sorts by length."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def held_to(regex: str, make_request: RequestMaker) -> RequestMaker:
    """The same requests, their outputs held to a regular expression."""
    constraint = Constraint(regex=regex)

    def make_held(passage: Passage) -> Request:
        return replace(make_request(passage), constraint=constraint)

    return make_held


class Payer(Protocol):
    """Whoever pays for calls, such as a question's bill."""

    def charge(self, completions: Sequence[Completion]) -> None:
        """Take note of calls to a model."""
        ...


class TripleExtractor:
    """Extracts through an engine and a cache; concurrent calls share one request a passage."""

    def __init__(self, engine: Engine, make_request: RequestMaker, cache: TripleCache) -> None:
        """`make_request` turns a passage into the engine's request, prompt and adapter set."""
        self.engine = engine
        self.make_request = make_request
        self.cache = cache
        self._running: dict[str, asyncio.Task[list[Triple]]] = {}

    async def extract(
        self, passages: Sequence[Passage], payer: Payer | None = None
    ) -> list[list[Triple]]:
        """Triples of each passage, in order; only calls made here are charged to `payer`."""
        keys = [passage_key(passage) for passage in passages]
        known = self.cache.get(list(dict.fromkeys(keys)))
        missing = {k: p for k, p in zip(keys, passages, strict=True) if k not in known}
        tasks = {key: self._task(key, passage, payer) for key, passage in missing.items()}
        # A shielded task goes on for the other callers when this one is cancelled.
        found = await asyncio.gather(*map(asyncio.shield, tasks.values()))
        known.update(zip(tasks, found, strict=True))
        return [known[key] for key in keys]

    def _task(self, key: str, passage: Passage, payer: Payer | None) -> asyncio.Task[list[Triple]]:
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._extract_one(key, passage, payer))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return task

    async def _extract_one(self, key: str, passage: Passage, payer: Payer | None) -> list[Triple]:
        [completion] = await self.engine.generate([self.make_request(passage)])
        if payer is not None:
            payer.charge([completion])
        parsed = parse_triples(completion.text)
        triples = list(dict.fromkeys(parsed.triples))
        self.cache.put({key: (triples, parsed.malformed)})
        return triples
