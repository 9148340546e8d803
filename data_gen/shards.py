"""Parts of a build for an array of jobs: which record belongs to which shard."""

import argparse
import hashlib
from dataclasses import dataclass

from data_gen.streaming.spool import Spooled, to_line


@dataclass(frozen=True)
class Shard:
    """Shard `number` (from 1) of `count`. Records are dealt by a hash of their ids."""

    number: int = 1
    count: int = 1

    def owns(self, record_id: str) -> bool:
        """Whether the record is this shard's: each is one shard's, whatever else there is."""
        if self.count == 1:
            return True
        digest = hashlib.sha256(f"shard/{record_id}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


WHOLE = Shard()


class Deal:
    """Deals records to shards and keeps account of all that were dealt.

    Every shard deals the same records in the same order: `count` and `sha256` are then the same in
    all of them, and their `own` add up to `count`.
    """

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.count = self.own = 0
        self._digest = hashlib.sha256()

    def owns(self, record_id: str, record: Spooled) -> bool:
        """Whether the record, dealt now under this id, is the shard's own."""
        own = self.shard.owns(record_id)
        self.count += 1
        self.own += own
        if self.shard.count > 1:
            self._digest.update(f"{record_id!a} {to_line(record)}\n".encode("ascii"))
        return own

    def to_json(self) -> dict[str, object]:
        """What the shard's card says of it."""
        return {"own": self.own, "all": self.count, "sha256": self._digest.hexdigest()}


def shard(text: str) -> Shard:
    """An argparse type for `3/8`: the third of eight shards."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(
            f"{text!r}: write NUMBER/COUNT with a number from 1 to the count, as 3/8"
        )
    return Shard(int(number), int(count))


def add_shard_option(parser: argparse.ArgumentParser) -> None:
    """The option of the builders that can make a part of their build."""
    parser.add_argument(
        "--shard", type=shard, metavar="I/N",
        help="make part I of N, from 1; data_gen/merge_shards.py puts the parts together",
    )  # fmt: skip
