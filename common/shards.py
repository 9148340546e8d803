"""Parts of a work for an array of jobs: which record belongs to which, and are all there."""

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from common.errors import UserError


@dataclass(frozen=True)
class Shard:
    """Shard `number` (from 1) of `count`. Records are dealt by a hash of their ids."""

    number: int = 1
    count: int = 1

    def owns(self, record_id: str) -> bool:
        """Tell whether the record is this shard's: each is one shard's, whatever else there is."""
        if self.count == 1:
            return True
        digest = hashlib.sha256(f"shard/{record_id}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


WHOLE = Shard()


def shard(text: str) -> Shard:
    """Read `3/8`: the third of eight shards, as an argparse type."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(
            f"{text!r}: write NUMBER/COUNT with a number from 1 to the count, as 3/8"
        )
    return Shard(int(number), int(count))


class ShardError(UserError, ValueError):
    """A shard that cannot be put together with the others: which, what differs, the remedy."""

    def __init__(self, where: object, problem: str, remedy: str) -> None:
        super().__init__(f"{where}: {problem}. {remedy}")


class StoredShard(Protocol):
    """A shard's folder; its text names its card and its number."""

    @property
    def folder(self) -> Path:
        """Return where it lies."""
        ...

    @property
    def shard(self) -> Shard:
        """Return which shard of how many."""
        ...


def check_numbers(shards: Sequence[StoredShard]) -> None:
    """Raise ShardError unless each number of one count is there once."""
    first = shards[0]
    held: dict[int, StoredShard] = {}
    for stored in shards:
        if stored.shard.count != first.shard.count:
            problem = f"one of {stored.shard.count} shards, but {first} is one of"
            remedy = "Merge the shards of one --shard count alone"
            raise ShardError(stored, f"{problem} {first.shard.count}", remedy)
        other = held.setdefault(stored.shard.number, stored)
        if other is not stored:
            problem = f"the same number as {other.folder}"
            raise ShardError(stored, problem, "Give each shard once; make the others with --shard")
    missing = [n for n in range(1, first.shard.count + 1) if n not in held]
    if missing:
        names = ", ".join(f"{number}/{first.shard.count}" for number in missing)
        problem = f"beside it these shards are missing: {names}"
        raise ShardError(first, problem, "Make them with --shard and name their folders too")
