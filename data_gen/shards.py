"""Parts of a build for an array of jobs: the account of what was dealt, and the option."""

import argparse
import hashlib

from data_gen.streaming.spool import Spooled, to_line
from evaluation.shards import Shard, shard


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


def add_shard_option(parser: argparse.ArgumentParser) -> None:
    """The option of the builders that can make a part of their build."""
    parser.add_argument(
        "--shard", type=shard, metavar="I/N",
        help="make part I of N, from 1; data_gen/merge_shards.py puts the parts together",
    )  # fmt: skip
