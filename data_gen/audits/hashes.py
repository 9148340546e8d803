"""Hashes in place of texts, kept in flat arrays, so that a million records stay small.

A hash has 64 bits: among a million different texts two share one with a chance of 3e-8."""

from array import array
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_gen.audits.findings import Choice

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]


def text_hash(text: str) -> int:
    """64 bits of a text, the same in every run. Raises UnicodeEncodeError on half a surrogate."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def as_numpy(values: "array[int]") -> NDArray[np.uint64]:
    """A flat array as NumPy's unsigned 64-bit integers."""
    return np.array(values, dtype=np.uint64)


def _order(keys: Hashes, values: NDArray[np.uint64]) -> tuple[NDArray[np.intp], Mask, Mask]:
    """An order by key, then value, then position; where key and value equal the one before."""
    order = np.lexsort((values, keys))
    same_key = keys[order][1:] == keys[order][:-1]
    same_value = values[order][1:] == values[order][:-1]
    return order, same_key, same_value


def keys_with_two_values(keys: Hashes, values: NDArray[np.uint64]) -> Hashes:
    """The distinct keys that stand beside more than one value, in ascending order."""
    order, same_key, same_value = _order(keys, values)
    return np.unique(keys[order][1:][same_key & ~same_value])


def later_repeats(keys: Hashes, values: NDArray[np.uint64]) -> Mask:
    """Which positions hold a key and value that an earlier position holds too."""
    order, same_key, same_value = _order(keys, values)
    repeats = np.zeros(len(keys), dtype=np.bool_)
    repeats[order[1:][same_key & same_value]] = True
    return repeats


def first_of_each_value(
    keys: Hashes, values: NDArray[np.uint64], key: np.uint64, most: int = 2
) -> list[int]:
    """The first positions of `key` with values that differ, at most `most`, in order."""
    positions = np.flatnonzero(keys == key)
    _, first = np.unique(values[positions], return_index=True)
    return [int(position) for position in positions[np.sort(first)][:most]]


def chosen(items: NDArray[Any], choice: Choice) -> list[int]:
    """At most `choice.size` of the items, in their order; the same ones for one seed."""
    size = min(choice.size, len(items))
    positions = np.random.default_rng(choice.seed).choice(len(items), size, replace=False)
    return [int(item) for item in items[np.sort(positions)]]
