"""Questions that share a hop, an evidence triple or their words, and a split that parts none.

What grows with the questions are flat arrays: 8 bytes a question, 24 a shared thing."""

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data_gen.held_out import leak_keys
from data_gen.splits import hash_fraction
from data_gen.streaming.first_by_key import text_value
from models.formats.records import QuestionRecord

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """The group of each question, sizes, and a key of each that no order of questions changes."""

    of: Numbers
    sizes: Numbers
    keys: list[int]


class QuestionGroups:
    """Takes in questions one by one and tells the groups that are connected by what they share."""

    def __init__(self) -> None:
        self._owners, self._keys = array("q"), array("Q")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, record: QuestionRecord) -> None:
        """Take in the next question."""
        for key in {key for _, key in leak_keys(record)}:
            self._owners.append(self._count)
            self._keys.append(text_value(key))
        self._count += 1

    def groups(self) -> Groups:
        """The connected groups. A group's key is the smallest hash of what its questions have."""
        owners = np.array(self._owners, dtype=np.int64)
        hashes = np.array(self._keys, dtype=np.uint64)
        distinct, things = np.unique(hashes, return_inverse=True)
        size = self._count + len(distinct)
        edges = (np.ones(len(owners), dtype=np.int8), (owners, self._count + things))
        _, labels = connected_components(coo_array(edges, shape=(size, size)), directed=False)
        _, of = np.unique(labels[: self._count], return_inverse=True)
        keys = np.full(int(of.max(initial=-1)) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(keys, of[owners], hashes)
        return Groups(of.astype(np.int64), np.bincount(of, minlength=len(keys)), keys.tolist())


def choose_dev(groups: Groups, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Which questions are for development: whole groups, as many as fit in the share asked for.

    The groups come in an order by a hash of their keys and the seed. One that is too large for
    what is left is passed over, so that at most a share of `fraction` is chosen.
    """
    wanted = round(fraction * len(groups.of))
    order = sorted(range(len(groups.keys)), key=lambda group: _position(groups, group, seed))
    chosen = np.zeros(len(groups.keys), dtype=np.bool_)
    for group in order:
        if groups.sizes[group] <= wanted:
            chosen[group] = True
            wanted -= int(groups.sizes[group])
    return chosen[groups.of] if len(groups.of) else np.zeros(0, dtype=np.bool_)


def _position(groups: Groups, group: int, seed: int) -> float:
    return hash_fraction(f"group/{groups.keys[group]}", seed)
