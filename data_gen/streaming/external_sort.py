"""Lines in the order of their keys, however many: sorted runs on disk, then a merge of the runs."""

import heapq
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

BUFFER_BYTES = 64 << 20
# What Python holds of a line besides its bytes.
_ENTRY_OVERHEAD = 48
# So many run files are open at once; more are merged in groups first.
MOST_RUNS = 64


def sort_key(fraction: float, number: int = 0) -> str:
    """A key that sorts as (fraction, number) does: their bits in hexadecimal digits, 28 of them.

    fraction: not negative, as `hash_fraction` gives it; number: below 2**48, to break ties.
    """
    return f"{fraction_bits(fraction):016x}{number:012x}"


def fraction_bits(fraction: float) -> int:
    """A whole number that sorts as the fraction, not negative, does."""
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
        """The lines in order; may be asked for more than once, after everything was added."""
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
        """The first `count` lines."""
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
