"""The table of all audited records: 44 bytes a record in place of its texts."""

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_gen.audits.findings import Place
from data_gen.audits.hashes import Hashes, as_numpy, text_hash
from data_gen.audits.kinds import Kind


@dataclass(frozen=True)
class Seen:
    """A record as the checks see it: its place, its texts, its position among all records."""

    position: int
    place: Place
    record: Any
    prompt: str
    label: str


class RecordTable:
    """Hashes of each record's id, owner, wording, prompt and label (8 bytes each), and its line."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._lines = array("I")
        self._columns = {name: array("Q") for name in ("id", "owner", "wording", "prompt", "label")}
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._lines)

    def start_file(self) -> None:
        """Records added from here on belong to the next file."""
        self._starts.append(len(self))

    def add(self, line: int, record: Any) -> Seen:
        """Take in one record. Raises UnicodeEncodeError on half a surrogate; then nothing is."""
        kind = self.kind
        prompt, label = kind.prompt(record), kind.label(record)
        texts = (record.id, kind.owner(record), kind.wording(record), prompt, label)
        hashes = [text_hash(text) for text in texts]
        for column, value in zip(self._columns.values(), hashes, strict=True):
            column.append(value)
        self._lines.append(line)
        place = Place(len(self._starts) - 1, line)
        return Seen(len(self) - 1, place, record, prompt, label)

    def column(self, name: str) -> Hashes:
        """The hashes of `id`, `owner`, `wording`, `prompt` or `label`, one a record."""
        return as_numpy(self._columns[name])

    def files(self) -> NDArray[np.uint64]:
        """The position of each record's file."""
        ends = [*self._starts[1:], len(self)]
        counts = [end - start for start, end in zip(self._starts, ends, strict=True)]
        return np.repeat(np.arange(len(counts), dtype=np.uint64), counts)

    def lines(self, file: int) -> "array[int]":
        """The lines of a file's records, ascending."""
        end = self._starts[file + 1] if file + 1 < len(self._starts) else len(self)
        return self._lines[self._starts[file] : end]

    def place(self, position: int) -> Place:
        """Where the record at this position stands."""
        file = int(np.searchsorted(self._starts, position, side="right")) - 1
        return Place(file, self._lines[position])
