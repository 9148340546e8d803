"""All audited records as flat arrays: hashes in place of texts, counts in place of lists."""

from array import array
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_gen.audits.findings import Choice, Place
from data_gen.audits.inputs import Kind
from data_gen.streaming.counts import spread_of

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]


def text_hash(text: str) -> int:
    """Return 64 bits of a text, always the same. Raises UnicodeEncodeError on half a surrogate."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def as_numpy(values: "array[int]") -> NDArray[np.uint64]:
    """Return a flat array as NumPy's unsigned 64-bit integers."""
    return np.array(values, dtype=np.uint64)


def _order(keys: Hashes, values: NDArray[np.uint64]) -> tuple[NDArray[np.intp], Mask, Mask]:
    """Return an order by key, value and position; where key and value equal those before."""
    order = np.lexsort((values, keys))
    same_key = keys[order][1:] == keys[order][:-1]
    same_value = values[order][1:] == values[order][:-1]
    return order, same_key, same_value


def keys_with_two_values(keys: Hashes, values: NDArray[np.uint64]) -> Hashes:
    """Return the distinct keys that stand beside more than one value, in ascending order."""
    order, same_key, same_value = _order(keys, values)
    return np.unique(keys[order][1:][same_key & ~same_value])


def later_repeats(keys: Hashes, values: NDArray[np.uint64]) -> Mask:
    """Return which positions hold a key and value that an earlier position holds too."""
    order, same_key, same_value = _order(keys, values)
    repeats = np.zeros(len(keys), dtype=np.bool_)
    repeats[order[1:][same_key & same_value]] = True
    return repeats


def first_of_each_value(
    keys: Hashes, values: NDArray[np.uint64], key: np.uint64, most: int = 2
) -> list[int]:
    """Return the first positions of `key` with values that differ, at most `most`, in order."""
    positions = np.flatnonzero(keys == key)
    _, first = np.unique(values[positions], return_index=True)
    return [int(position) for position in positions[np.sort(first)][:most]]


def chosen(items: NDArray[Any], choice: Choice) -> list[int]:
    """At most `choice.size` of the items, in their order; the same ones for one seed."""
    size = min(choice.size, len(items))
    positions = np.random.default_rng(choice.seed).choice(len(items), size, replace=False)
    return [int(item) for item in items[np.sort(positions)]]


def spread_figures(counts: Counter[int]) -> dict[str, float]:
    """Return how many values were counted, and the figures of `spread_of`; empty for none."""
    figures = spread_of(counts)
    return (
        {"count": counts.total(), **figures, "median": float(figures["median"])} if figures else {}
    )


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
        """Return the hashes of `id`, `owner`, `wording`, `prompt` or `label`, one a record."""
        return as_numpy(self._columns[name])

    def files(self) -> NDArray[np.uint64]:
        """Return the position of each record's file."""
        ends = [*self._starts[1:], len(self)]
        counts = [end - start for start, end in zip(self._starts, ends, strict=True)]
        return np.repeat(np.arange(len(counts), dtype=np.uint64), counts)

    def lines(self, file: int) -> "array[int]":
        """Return the lines of a file's records, ascending."""
        end = self._starts[file + 1] if file + 1 < len(self._starts) else len(self)
        return self._lines[self._starts[file] : end]

    def place(self, position: int) -> Place:
        """Return where the record at this position stands."""
        file = int(np.searchsorted(self._starts, position, side="right")) - 1
        return Place(file, self._lines[position])
