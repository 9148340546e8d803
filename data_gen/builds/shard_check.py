"""The check that shards make up one build: none missing or doubled, all of one kind, none
altered.
"""

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from common.shards import Shard, ShardError, check_numbers
from data_gen.builds.found import Found
from data_gen.builds.shards import FORMAT, ITEMS, LOOK_UPS, Item, lines_and_sha256
from data_gen.streaming.files import from_line

ItemT = TypeVar("ItemT", bound=Item)


@dataclass(frozen=True)
class ShardFolder:
    """A shard's folder and its card."""

    folder: Path
    card: Mapping[str, Any]

    @property
    def shard(self) -> Shard:
        """Return which shard of how many."""
        return Shard(self.card["shard"], self.card["of"])

    def __str__(self) -> str:
        return f"{self.folder / 'card.json'}: shard {self.shard}"


def open_shards(folders: Sequence[Path]) -> list[ShardFolder]:
    """Return the shards in the order of their numbers, proven to be the parts of one build.

    Raises ShardError for a folder that is no shard, a number that is missing or there twice, other
    options, inputs or records than the first shard's, and a file that is not what was written.
    """
    shards = [_open(folder) for folder in folders]
    check_numbers(shards)
    shards.sort(key=lambda shard: shard.shard.number)
    for other in shards[1:]:
        _check_same_build(shards[0], other)
    _check_records(shards)
    for shard in shards:
        _check_files(shard)
    return shards


def _open(folder: Path) -> ShardFolder:
    path = folder / "card.json"
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ShardError(folder, "holds no card.json", "Name a folder made with --shard") from None
    except ValueError as error:
        raise ShardError(path, f"not JSON ({error})", "Make the shard again") from None
    if not isinstance(card, dict) or "shard" not in card:
        raise ShardError(path, "not a shard's card", "Name a folder made with --shard")
    if card.get("format") != FORMAT:
        problem = f"a shard in format {card.get('format')}, not {FORMAT}"
        raise ShardError(path, problem, "Make and merge all shards with one version of this code")
    return ShardFolder(folder, card)


def _check_same_build(first: ShardFolder, other: ShardFolder) -> None:
    remedy = "Make both with the same options from the same files"
    if other.card["builder"] != first.card["builder"]:
        problem = f"made by {other.card['builder']}.py, {first} by {first.card['builder']}.py"
        raise ShardError(other, problem, remedy)
    for name in sorted({*first.card["options"], *other.card["options"]}):
        there, here = (shard.card["options"].get(name) for shard in (first, other))
        if there != here:
            option = f"--{name.replace('_', '-')}"
            raise ShardError(other, f"{option} is {here}, in {first} {there}", remedy)
    for there, here in zip(first.card["inputs"], other.card["inputs"], strict=True):
        if there["sha256"] != here["sha256"]:
            problem = (
                f"{here['option']} {here['file']} has sha256 {here['sha256'][:16] or 'none'}, "
                f"in {first} {there['sha256'][:16] or 'none'}"
            )
            raise ShardError(other, problem, "Make both from the same file")
    for name in ("skipped_records", "sources"):
        if first.card["found"][name] != other.card["found"][name]:
            problem = f"other {name.replace('_', ' ')} than in {first}"
            raise ShardError(other, problem, "Its sources were others: make both again")


def _check_records(shards: Sequence[ShardFolder]) -> None:
    first = shards[0].card["records"]
    for shard in shards[1:]:
        records = shard.card["records"]
        if (records["all"], records["sha256"]) != (first["all"], first["sha256"]):
            problem = f"read other records than {shards[0]} ({records['all']} and {first['all']})"
            raise ShardError(
                shard, problem, "A source, of the hub perhaps, changed: make all again"
            )
    own = sum(shard.card["records"]["own"] for shard in shards)
    if own != first["all"]:
        problem = f"the shards hold {own} records together, the sources {first['all']}"
        raise ShardError(shards[0], problem, "A card was altered: make the shards again")


def _check_files(shard: ShardFolder) -> None:
    for name in (ITEMS, LOOK_UPS):
        path = shard.folder / name
        if not path.is_file():
            raise ShardError(shard, f"{name} is missing", "Make this shard again")
        found, wanted = lines_and_sha256(path), shard.card["files"][name]
        if found != wanted:
            problem = f"not what was written ({found['lines']} lines, not {wanted['lines']})"
            remedy = f"The file was cut or altered: make shard {shard.shard} again"
            raise ShardError(path, problem, remedy)


class MergedShards(Generic[ItemT]):
    """The reading of a whole build, of the items that its shards hold."""

    def __init__(self, shards: Sequence[ShardFolder], item_type: type[ItemT]) -> None:
        self._shards, self._type = shards, item_type

    def found(self) -> Found:
        """Return what all shards counted."""
        return Found.put_together([shard.card["found"] for shard in self._shards])

    def items(self) -> Iterator[ItemT]:
        """Give the items of all shards in the order of the build.

        Raises ShardError for an item that another shard should hold, or that comes twice.
        """
        before: ItemT | None = None
        own = (self._items(shard) for shard in self._shards)
        for item in heapq.merge(*own, key=lambda item: item.place):
            if before is not None and item.place <= before.place:
                problem = f"two items at place {list(item.place)}: {before.id!r} and {item.id!r}"
                raise ShardError(self._shards[0], problem, "Make the shards again")
            before = item
            yield item

    def _items(self, shard: ShardFolder) -> Iterator[ItemT]:
        path = shard.folder / ITEMS
        with open(path, "rb") as lines:
            for number, line in enumerate(lines, start=1):
                item = from_line(line, self._type)
                if not shard.shard.owns(item.id):
                    problem = f"{item.id!r} belongs to another shard than {shard.shard}"
                    raise ShardError(f"{path}:{number}", problem, "Make the shard again")
                yield item

    def look_ups(self) -> Iterator[str]:
        """Give the look-ups of all shards in order."""
        with ExitStack() as stack:
            paths = (shard.folder / LOOK_UPS for shard in self._shards)
            files = [stack.enter_context(open(path, encoding="ascii")) for path in paths]
            yield from (line.rstrip("\n") for line in heapq.merge(*files))
