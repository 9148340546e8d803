"""Triples of passages, all or what answers a subquery; nothing is read twice (RAS eq. 3)."""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from common.concurrency import at_once
from common.errors import UserError
from common.sqlite import is_full, is_out_of_reach, is_read_only, open_sqlite, share
from inference.engines.contract import Completion, Constraint, Engine, Request
from inference.retrieval.passages import Passage
from models.formats.passages import passage_key
from models.formats.triples import Triple, parse_triples

logger = logging.getLogger(__name__)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS extracted (
    model TEXT NOT NULL,
    passage TEXT NOT NULL,
    triples TEXT NOT NULL,
    malformed INTEGER NOT NULL,
    PRIMARY KEY (model, passage)
) WITHOUT ROWID
"""
_LOCK_TIMEOUT_SECONDS = 60.0
# SQLite's limit of variables in a statement is far above this.
_KEYS_PER_QUERY = 500
RequestMaker = Callable[[Passage], Request]
ItemT = TypeVar("ItemT")
# What an extractor that is held to its grammar adds to its fingerprint.
HELD = "+grammar"


def _connect(path: str | Path | None) -> sqlite3.Connection:
    if path is None:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        connection = open_sqlite(Path(path), _LOCK_TIMEOUT_SECONDS, check_same_thread=False)
        share(connection)
    with connection:
        connection.execute(_SCHEMA)
    return connection


class CacheError(UserError, RuntimeError):
    """A file that cannot serve as the cache; the message names it and the remedy."""


@contextmanager
def _cache_errors(path: str | Path | None) -> Iterator[None]:
    """Turn what SQLite and the system refuse while the block runs into CacheError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        remedy = "free some space" if is_full(error) else "remove this one"
        if isinstance(error, OSError) or is_out_of_reach(error):
            remedy = "make this one writable"
        raise CacheError(
            f"{path}: cannot be used as the cache of extracted triples ({reason}). Name another "
            f"file with --cache, or {remedy}; TRIVIUM_CACHE moves all caches."
        ) from error


class TripleCache:
    """Passage -> triples in SQLite, for one model; safe for many processes.

    Only what a model answered is ever stored: a failed call leaves nothing behind.
    """

    def __init__(self, path: str | Path | None, model: str) -> None:
        """Open or create the cache; `path` None keeps it in memory.

        `model` tells one extractor from another, such as its checkpoint's fingerprint. Raises
        CacheError for a file that is no such cache, as the methods do for a damaged one.
        """
        self.model = model
        self.path = path
        self._keeps = True
        with _cache_errors(path):
            self._connection = _connect(path)

    def get(self, keys: Sequence[str]) -> dict[str, list[Triple]]:
        """Triples of those passages that were extracted before, by key."""
        with _cache_errors(self.path):
            return self._read(keys)

    def _read(self, keys: Sequence[str]) -> dict[str, list[Triple]]:
        found: dict[str, list[Triple]] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            chunk = keys[start : start + _KEYS_PER_QUERY]
            rows = self._connection.execute(
                "SELECT passage, triples FROM extracted WHERE model = ? AND passage IN "
                f"({','.join('?' * len(chunk))})",
                (self.model, *chunk),
            )
            found.update({key: [Triple(*t) for t in json.loads(text)] for key, text in rows})
        return found

    def put(self, extracted: Mapping[str, tuple[Sequence[Triple], int]]) -> None:
        """Store triples and the count of malformed pieces, by key, in one transaction.

        A cache that may only be read stays as it is.
        """
        rows = [
            (self.model, key, json.dumps([[t.subject, t.predicate, t.object] for t in ts]), bad)
            for key, (ts, bad) in extracted.items()
        ]
        insert = "INSERT OR REPLACE INTO extracted VALUES (?,?,?,?)"
        with _cache_errors(self.path):
            try:
                with self._connection:
                    self._connection.executemany(insert, rows)
            except sqlite3.OperationalError as error:
                if not is_read_only(error):
                    raise
                if self._keeps:
                    logger.warning("%s may only be read: what is extracted is not kept", self.path)
                self._keeps = False

    def malformed(self) -> int:
        """Pieces of this model's output that were no triple, over everything stored."""
        return self._number("COALESCE(SUM(malformed), 0)")

    def __len__(self) -> int:
        return self._number("COUNT(*)")

    def _number(self, of: str) -> int:
        """Return a sum or a count over this model's rows."""
        query = f"SELECT {of} FROM extracted WHERE model = ?"
        with _cache_errors(self.path):
            return int(self._connection.execute(query, (self.model,)).fetchone()[0])

    def close(self) -> None:
        """Release the file."""
        self._connection.close()


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


@dataclass
class _Running:
    """The extraction of a key, and how many calls wait for it."""

    task: asyncio.Task[list[Triple]]
    waiters: int = 0


class TripleExtractor:
    """Extracts all facts of passages; concurrent calls share one request a passage.

    A request is cancelled with the last call that waits for it.
    """

    def __init__(self, engine: Engine, make_request: RequestMaker, cache: TripleCache) -> None:
        """`make_request` turns a passage into the engine's request, prompt and adapter set."""
        self.engine = engine
        self.make_request = make_request
        self.cache = cache
        # What sets the extractions of a context apart from others'; "" shares them.
        self.scope: Callable[[], str] = str
        # Hears of passages whose triples no call of this one gave, with their triples.
        self.on_known: Callable[[Passage, list[Triple]], None] | None = None
        self._running: dict[str, _Running] = {}

    async def extract(
        self,
        passages: Sequence[Passage],
        payer: Payer | None = None,
        subquery: str = "",
        whole: bool = False,
    ) -> list[list[Triple]]:
        """Return the triples of each passage, in order.

        payer: charged for the calls made here alone. subquery: what the passages were found for.
        whole: the subquery is the question itself, which may take several steps. Raises the first
        failure once all requests have ended: what they gave is in the cache.
        """
        scope = self.scope()
        keys = [scope + self.key(passage, subquery) for passage in passages]
        known = self.cache.get(list(dict.fromkeys(keys)))
        missing = {k: p for k, p in zip(keys, passages, strict=True) if k not in known}
        # Before the first wait: what others leave meanwhile goes on for this call.
        waited = {key: self._join(key, p, subquery, payer) for key, p in missing.items()}
        own = {key for key, running in waited.items() if running.waiters == 1}
        try:
            found = await at_once(asyncio.shield(running.task) for running in waited.values())
        finally:
            for key, running in waited.items():
                self._leave(key, running)
        known.update(zip(waited, found, strict=True))
        if self.on_known is not None:
            for key, passage in dict(zip(keys, passages, strict=True)).items():
                if key not in own:
                    self.on_known(passage, known[key])
        return [known[key] for key in keys]

    def cut(self, passages: Sequence[Passage], subquery: str, whole: bool = False) -> list[Passage]:
        """Return the passages that are read in part, as far as that is counted; here none."""
        return []

    def close(self) -> None:
        """Release the cache."""
        self.cache.close()

    def forget(self) -> None:
        """Put an empty cache in memory in the place of the cache."""
        self.cache.close()
        self.cache = TripleCache(None, self.cache.model)

    def key(self, passage: Passage, subquery: str) -> str:
        """Return what a passage's triples are known by in the cache."""
        return passage_key(passage)

    def request(self, passage: Passage, subquery: str) -> Request:
        """Return the request for a passage's triples."""
        return self.make_request(passage)

    def read(
        self, completion: Completion, passage: Passage, subquery: str
    ) -> tuple[list[Triple], int]:
        """Return the distinct triples that a model wrote, and how many pieces were none."""
        parsed = parse_triples(completion.text)
        return list(dict.fromkeys(parsed.triples)), parsed.malformed

    def _join(self, key: str, passage: Passage, subquery: str, payer: Payer | None) -> _Running:
        """Return the extraction of a key, begun where none runs, with one more that waits."""
        running = self._running.get(key)
        # One that has failed already is tried again.
        if running is None or running.task.done():
            task = asyncio.create_task(self._extract_one(key, passage, subquery, payer))
            # Else a failure on the way out of a cancelled one is complained of.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            running = self._running[key] = _Running(task)
        running.waiters += 1
        return running

    def _leave(self, key: str, running: _Running) -> None:
        """Wait no longer; the last one ends an extraction that runs still."""
        running.waiters -= 1
        if not running.waiters:
            # Out of reach before it is cancelled: whoever comes now begins a new one.
            if self._running.get(key) is running:
                del self._running[key]
            running.task.cancel()

    async def _extract_one(
        self, key: str, passage: Passage, subquery: str, payer: Payer | None
    ) -> list[Triple]:
        [completion] = await self.engine.generate([self.request(passage, subquery)])
        if payer is not None:
            payer.charge([completion])
        triples, malformed = self.read(completion, passage, subquery)
        self.cache.put({key: (triples, malformed)})
        return triples
