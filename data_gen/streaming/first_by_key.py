"""Which entry is the first of its key, for any number of entries: bucket files, no hash table.

An entry takes 32 bytes on disk: 16 of a key's hash, 8 of a value's, 8 of its number. Bucket files
and not a table of 16 bytes an entry in memory, because a table grows with the data, while a bucket
can always be made small enough; both passes over the buckets are sequential; and 128 bits of a key
are kept, so that no two prompts are ever taken for one.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FIRST, SAME, OTHER, LEFT_OUT = range(4)
_ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("value", "<u8"), ("number", "<u8")])
Entries = npt.NDArray[Any]


def text_key(text: str) -> bytes:
    """16 bytes that stand for a text; a lone surrogate in it is allowed."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def text_value(text: str) -> int:
    """8 bytes that stand for a text, as a number."""
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
        """One byte an entry: FIRST of its key, SAME value as the first, or OTHER value.

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
        """How many entries each key has, and the first one's value; keys in no order, in pieces."""
        for entries, start, _ in self._groups():
            yield np.diff(np.append(start, len(entries))), entries["value"][start]

    def distinct(self) -> int:
        """How many different keys there are."""
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
