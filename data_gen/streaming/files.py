"""Records on disk while a build runs: kept in order, sorted by key, watched as they pass."""

import errno
import heapq
import json
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Generic, TextIO, TypeVar

from common.files import atomic_directory, atomic_write
from models.formats.records import Record, RecordT

_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
T = TypeVar("T")
BUFFER_BYTES = 64 << 20
# What Python holds of a line besides its bytes.
_ENTRY_OVERHEAD = 48
# So many run files are open at once; more are merged in groups first.
MOST_RUNS = 64


class DiskFullError(OSError):
    """There was no room left for what a command writes."""


@contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """A temporary folder in `folder`, so on its disk, that is gone when the block ends."""
    path = Path(tempfile.mkdtemp(dir=folder, prefix=".work."))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def output(out: Path) -> Iterator[tuple[Path, Path]]:
    """A folder that becomes `out` when the block ends without error, and one to work in.

    Both lie beside `out`. Raises DiskFullError where the disk has no room for them.
    """
    with full_disk_errors(out), atomic_directory(out) as folder, workspace(folder) as work:
        yield folder, work


@contextmanager
def record_files(folder: Path, names: Iterable[str]) -> Iterator[dict[str, TextIO]]:
    """The files NAME.jsonl of a folder by name, to be written side by side; whole or not at all."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(atomic_write(folder / f"{name}.jsonl")) for name in names}


@contextmanager
def full_disk_errors(out: Path) -> Iterator[None]:
    """Turn a write that found no room into a DiskFullError that names `out` and the remedy."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if not _is_full(error):
            raise
        raise DiskFullError(
            f"{out}: writing failed ({error}): its disk is full, or files may not grow that large. "
            "What stood there is unchanged; make room, or name a folder elsewhere with --out"
        ) from error


def _is_full(error: OSError | sqlite3.Error) -> bool:
    if isinstance(error, sqlite3.Error):
        # A temporary table that cannot grow is reported as full or, past a file's limit, as I/O.
        return any(words in str(error) for words in ("disk is full", "disk I/O error"))
    return error.errno in _FULL or "No space left" in str(error) or "File too large" in str(error)


def observed(items: Iterable[T], *observers: Callable[[T], None]) -> Iterator[T]:
    """Yield the items as they come, each shown to all observers first."""
    for item in items:
        for observe in observers:
            observe(item)
        yield item


class FirstFew(Generic[T]):
    """Keeps the first few items that it is shown."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.items: list[T] = []

    def add(self, item: T) -> None:
        """See an item."""
        if len(self.items) < self._limit:
            self.items.append(item)


class EveryFew(FirstFew[T]):
    """Keeps a few items at equal distances among `count` that it is shown."""

    def __init__(self, limit: int, count: int) -> None:
        super().__init__(limit)
        self._step = max(count // limit, 1)
        self._seen = 0

    def add(self, item: T) -> None:
        """See an item."""
        if self._seen % self._step == 0:
            super().add(item)
        self._seen += 1


def to_line(record: Record) -> str:
    """Return a record as one line of ASCII, which holds any text, lone surrogates too."""
    return json.dumps(record.to_json())


def from_line(line: str | bytes, record_type: type[RecordT]) -> RecordT:
    """Return the record that `to_line` wrote."""
    return record_type.from_json(json.loads(line))


class Spool(Generic[RecordT]):
    """A file of records of one type: first `add` them all, then iterate, any number of times."""

    def __init__(self, file: Path, record_type: type[RecordT]) -> None:
        self.file, self._type = file, record_type
        self._handle = open(file, "w", encoding="ascii")  # noqa: SIM115
        self._count = 0

    def add(self, record: RecordT) -> None:
        """Append a record."""
        self._handle.write(to_line(record) + "\n")
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RecordT]:
        self._handle.close()
        with open(self.file, "rb") as lines:
            for line in lines:
                yield from_line(line, self._type)


def sort_key(fraction: float, number: int = 0) -> str:
    """Return 28 hexadecimal digits that sort as (fraction, number) does.

    fraction: not negative, as `hash_fraction` gives it; number: below 2**48, to break ties.
    """
    return f"{fraction_bits(fraction):016x}{number:012x}"


def fraction_bits(fraction: float) -> int:
    """Return a whole number that sorts as the fraction, not negative, does."""
    return int.from_bytes(struct.pack(">d", fraction), "big")


class ExternalSort:
    """Takes (key, line) pairs in any order and gives the lines back in the order of the keys.

    Up to `buffer_bytes` of lines are held in memory; what goes beyond is written to `folder`, or a
    temporary one, as sorted runs. Equal keys must not occur: a caller breaks ties in the key. A key
    has no tab, and a line no line break.
    """

    def __init__(self, folder: Path | None, buffer_bytes: int = BUFFER_BYTES) -> None:
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory()
            folder = Path(self._temporary.name)
        self._folder = folder
        self._limit = buffer_bytes
        self._buffer: list[bytes] = []
        self._held = 0
        self._count = 0
        self._runs: list[Path] = []

    def __len__(self) -> int:
        return self._count

    def add(self, key: str, line: str) -> None:
        """Take in one line. Raises UnicodeEncodeError for a text that UTF-8 cannot hold."""
        entry = f"{key}\t{line}\n".encode()
        self._buffer.append(entry)
        self._count += 1
        self._held += len(entry) + _ENTRY_OVERHEAD
        if self._held >= self._limit:
            self._write_run()

    def __iter__(self) -> Iterator[str]:
        """Return lines in order; may be asked for more than once, after everything was added."""
        if not self._runs:
            self._buffer.sort()
            return (_line(entry) for entry in self._buffer)
        self._write_run()
        while len(self._runs) > MOST_RUNS:
            group = [self._runs.pop(0) for _ in range(MOST_RUNS)]
            self._runs.append(self._run_file(_merged(group)))
            for run in group:
                run.unlink()
        return (_line(entry) for entry in _merged(self._runs))

    def first(self, count: int) -> Iterator[str]:
        """Return the first `count` lines."""
        return islice(iter(self), count)

    def _write_run(self) -> None:
        if self._buffer:
            self._buffer.sort()
            self._runs.append(self._run_file(self._buffer))
        self._buffer, self._held = [], 0

    def _run_file(self, entries: Iterable[bytes]) -> Path:
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="run.", delete=False) as file:
            file.writelines(entries)
        return Path(file.name)


def _merged(runs: list[Path]) -> Iterator[bytes]:
    with ExitStack() as stack:
        files = [stack.enter_context(open(run, "rb")) for run in runs]
        yield from heapq.merge(*files)


def _line(entry: bytes) -> str:
    return entry.split(b"\t", 1)[1][:-1].decode()
