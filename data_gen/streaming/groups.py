"""Payloads by key on disk, and the first entry of each key, for any number of entries."""

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_gen.streaming.files import from_line, to_line
from models.formats.records import PassageRecord

CACHE_BYTES = 32 << 20
_TABLES = """
CREATE TABLE groups (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, payload TEXT NOT NULL);
CREATE TABLE items (owner INTEGER, place INTEGER, value TEXT NOT NULL, PRIMARY KEY (owner, place))
    WITHOUT ROWID;
"""
FIRST, SAME, OTHER, LEFT_OUT = range(4)
_ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("value", "<u8"), ("number", "<u8")])
Entries = npt.NDArray[Any]


def open_table(tables: str, folder: Path | None = None) -> sqlite3.Connection:
    """Return an SQLite file in `folder` that nobody else reads, with these tables.

    No journal, one transaction that is never closed, up to CACHE_BYTES in memory; what fits there
    is not written. Without a folder the file is one of the system's temporary ones.
    """
    file = "" if folder is None else folder / f"{secrets.token_hex(8)}.sqlite"
    table = sqlite3.connect(file, isolation_level=None)
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
        table.execute(f"PRAGMA {pragma}")
    table.execute(f"PRAGMA cache_size=-{CACHE_BYTES >> 10}")
    table.executescript(tables)
    table.execute("BEGIN")
    return table


class DiskGroups:
    """Keys in the order of their first appearance, each with a payload and distinct values.

    On disk as `open_table` says. Keys may be any text, payloads and values none with a lone
    surrogate: JSON in ASCII.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._table = open_table(_TABLES, folder)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: str) -> bool:
        return self._number(text_key(key)) is not None

    def add(
        self, key: str, payload: str = "", value: str | None = None, replace: bool = False
    ) -> None:
        """Put a key in with its payload, unless it is there, and append a value that it lacks.

        replace: the payload takes the place of the one before.
        """
        digest = text_key(key)
        number = self._number(digest)
        if number is None:
            number = self._count
            self._count += 1
            self._table.execute("INSERT INTO groups VALUES (?, ?, ?)", (number, digest, payload))
        elif replace:
            self._table.execute("UPDATE groups SET payload = ? WHERE number = ?", (payload, number))
        if value is not None:
            held = self._values(number)
            if value not in held:
                self._table.execute(
                    "INSERT INTO items VALUES (?, ?, ?)", (number, len(held), value)
                )

    def payload(self, key: str) -> str | None:
        """Return the payload of a key, None where the key is not there."""
        found = self._table.execute("SELECT payload FROM groups WHERE key = ?", (text_key(key),))
        row = found.fetchone()
        return None if row is None else str(row[0])

    def values(self, key: str) -> list[str]:
        """Return the values of a key in the order in which they came; none for an unknown key."""
        number = self._number(text_key(key))
        return [] if number is None else self._values(number)

    def groups(self) -> Iterator[tuple[str, list[str]]]:
        """Yield payload and values of each key, keys in the order of their first appearance."""
        rows = self._table.execute("SELECT number, payload FROM groups ORDER BY number")
        for number, payload in rows:
            yield str(payload), self._values(number)

    def close(self) -> None:
        """Give the memory back."""
        self._table.close()

    def _number(self, digest: bytes) -> int | None:
        row = self._table.execute("SELECT number FROM groups WHERE key = ?", (digest,)).fetchone()
        return None if row is None else int(row[0])

    def _values(self, number: int) -> list[str]:
        rows = self._table.execute(
            "SELECT value FROM items WHERE owner = ? ORDER BY place", (number,)
        )
        return [row[0] for row in rows]


class PassageTable(Mapping[str, PassageRecord]):
    """Passages by title on disk; of several with one title the first stays."""

    def __init__(self, folder: Path | None = None) -> None:
        self._groups = DiskGroups(folder)

    def add(self, passage: PassageRecord) -> None:
        """Take in a passage."""
        self._groups.add(passage.title, to_line(passage))

    def __getitem__(self, title: str) -> PassageRecord:
        line = self._groups.payload(title)
        if line is None:
            raise KeyError(title)
        return from_line(line, PassageRecord)

    def __contains__(self, title: object) -> bool:
        return isinstance(title, str) and title in self._groups

    def __iter__(self) -> Iterator[str]:
        return (passage.title for passage in self.passages())

    def __len__(self) -> int:
        return len(self._groups)

    def passages(self) -> Iterator[PassageRecord]:
        """Return all of them, in the order in which they came."""
        return (from_line(line, PassageRecord) for line, _ in self._groups.groups())


def text_key(text: str) -> bytes:
    """Return 16 bytes that stand for a text; a lone surrogate in it is allowed."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def text_value(text: str) -> int:
    """Return 8 bytes that stand for a text, as a number."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


class FirstByKey:
    """Numbers entries as they come and says of each how it stands to the first with its key.

    `buffer_entries` are held in memory; with more, all go to `buckets` files in `folder` by their
    key's hash. Each bucket is read whole: at a hundred million entries that is 13 MB.
    """

    def __init__(
        self, folder: Path, name: str, buffer_entries: int = 1 << 19, buckets: int = 256
    ) -> None:
        self._files = [folder / f"{name}.{bucket:03d}" for bucket in range(buckets)]
        self._limit = buffer_entries * _ENTRY.itemsize
        self._buffer = bytearray()
        self._spilled = False
        self.count = 0
        self.first_clash: tuple[int, int] | None = None

    def add(self, key: bytes, value: int = 0) -> int:
        """Take in the next entry, a key of 16 bytes and a value below 2**64; its number."""
        number = self.count
        self._buffer += key + value.to_bytes(8, "little") + number.to_bytes(8, "little")
        self.count += 1
        if len(self._buffer) >= self._limit:
            self._spill()
        return number

    def verdicts(self, chosen: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.uint8]:
        """Return a byte for each entry: FIRST of its key, SAME value as the first, or OTHER value.

        chosen: which entries count at all (all); the others are LEFT_OUT. `first_clash` is then
        (number of a first, number of its OTHER) for the lowest such OTHER, or None.
        """
        verdicts = np.full(self.count, LEFT_OUT, np.uint8)
        self.first_clash = None
        for entries, start, group in self._groups(chosen):
            first = start[group]
            same = entries["value"] == entries["value"][first]
            found = np.where(first == np.arange(len(entries)), FIRST, np.where(same, SAME, OTHER))
            verdicts[entries["number"]] = found
            self._note_clash(entries, first, found == OTHER)
        return verdicts

    def sizes_and_values(self) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """Yield each key's number of entries and first value; keys in no order, in pieces."""
        for entries, start, _ in self._groups():
            yield np.diff(np.append(start, len(entries))), entries["value"][start]

    def distinct(self) -> int:
        """Return how many different keys there are."""
        return sum(len(start) for _, start, _ in self._groups())

    def _groups(
        self, chosen: npt.NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[Entries, npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        """Buckets sorted by key and number, where each key starts, and the key of each entry."""
        for bucket in self._buckets():
            if chosen is not None:
                bucket = bucket[chosen[bucket["number"]]]
            if not len(bucket):
                continue
            entries = bucket[np.lexsort((bucket["number"], bucket["low"], bucket["high"]))]
            new = np.ones(len(entries), bool)
            new[1:] = (entries["high"][1:] != entries["high"][:-1]) | (
                entries["low"][1:] != entries["low"][:-1]
            )
            yield entries, np.flatnonzero(new), np.cumsum(new) - 1

    def _note_clash(
        self, entries: Entries, first: npt.NDArray[np.intp], clashes: npt.NDArray[np.bool_]
    ) -> None:
        if not clashes.any():
            return
        numbers = np.where(clashes, entries["number"], np.iinfo(np.uint64).max)
        lowest = int(np.argmin(numbers))
        clash = (int(entries["number"][first[lowest]]), int(entries["number"][lowest]))
        if self.first_clash is None or clash[1] < self.first_clash[1]:
            self.first_clash = clash

    def _buckets(self) -> Iterator[Entries]:
        if not self._spilled:
            yield np.frombuffer(bytes(self._buffer), _ENTRY)
            return
        self._spill()
        for file in self._files:
            if file.exists():
                yield np.frombuffer(file.read_bytes(), _ENTRY)

    def _spill(self) -> None:
        entries = np.frombuffer(bytes(self._buffer), _ENTRY)
        self._buffer = bytearray()
        self._spilled = True
        bucket = (entries["low"] % len(self._files)).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=len(self._files)))
        for file, part in zip(self._files, np.split(entries[order], ends[:-1]), strict=True):
            if len(part):
                with open(file, "ab") as handle:
                    handle.write(part.tobytes())
