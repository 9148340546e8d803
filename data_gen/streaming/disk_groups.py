"""Payloads and lists of values by key, on disk: what would be a dictionary of lists in memory."""

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from data_gen.streaming.spool import from_line, to_line
from models.formats.records import PassageRecord

CACHE_BYTES = 32 << 20
_TABLES = """
CREATE TABLE groups (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, payload TEXT NOT NULL);
CREATE TABLE items (owner INTEGER, place INTEGER, value TEXT NOT NULL, PRIMARY KEY (owner, place))
    WITHOUT ROWID;
"""


def open_table(tables: str, folder: Path | None = None) -> sqlite3.Connection:
    """An SQLite file in `folder` that nobody else reads, with these tables.

    No journal, one transaction that is never closed, up to CACHE_BYTES in memory; what fits there
    is not written. Without a folder the file is one of the system's temporary ones.
    """
    file = "" if folder is None else _new_file(folder)
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
        return self._number(_digest(key)) is not None

    def add(
        self, key: str, payload: str = "", value: str | None = None, replace: bool = False
    ) -> None:
        """Put a key in with its payload, unless it is there, and append a value that it lacks.

        replace: the payload takes the place of the one before.
        """
        digest = _digest(key)
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
        """The payload of a key, None where the key is not there."""
        found = self._table.execute("SELECT payload FROM groups WHERE key = ?", (_digest(key),))
        row = found.fetchone()
        return None if row is None else str(row[0])

    def values(self, key: str) -> list[str]:
        """The values of a key in the order in which they came; none for an unknown key."""
        number = self._number(_digest(key))
        return [] if number is None else self._values(number)

    def groups(self) -> Iterator[tuple[str, list[str]]]:
        """Payload and values of each key, keys in the order of their first appearance."""
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
        """All of them, in the order in which they came."""
        return (from_line(line, PassageRecord) for line, _ in self._groups.groups())


def _new_file(folder: Path) -> str:
    descriptor, name = tempfile.mkstemp(dir=folder, suffix=".sqlite")
    os.close(descriptor)
    return name


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
