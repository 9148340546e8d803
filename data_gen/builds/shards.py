"""Parts of a build for an array of jobs: dealt out, written, and proven to make up one build."""

import argparse
import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tqdm import tqdm

from common.shards import Shard, ShardError, check_numbers
from common.tables import report
from data_gen.builds.cards import write_card
from data_gen.builds.found import Found
from data_gen.sources.arguments import NamedPath, source_file, source_sha256
from data_gen.streaming.counts import Place
from data_gen.streaming.files import from_line, to_line
from models.formats.records import Record

FORMAT = 1
ITEMS, LOOK_UPS = "items.jsonl", "look_ups.txt"
_NOT_OF_THE_BUILD = {"out", "json", "shard"}
_INPUTS = ("source", "corpus", "triples", "no_retrieval", "exclude", "evidences")


class Item(Record, Protocol):
    """One record's part of a build, dealt to a shard by its id and ordered by its place."""

    @property
    def id(self) -> str:
        """The id by which it is dealt to a shard."""
        ...

    @property
    def place(self) -> Place:
        """Return where in the build it stands."""
        ...


ItemT_co = TypeVar("ItemT_co", bound=Record, covariant=True)


class Reading(Protocol[ItemT_co]):
    """The first half of a build: of its sources, or of shards that are put together."""

    def items(self) -> Iterator[ItemT_co]:
        """Give the items in the order of the build."""
        ...

    def found(self) -> Found:
        """Return what was counted; asked when the items have been read."""
        ...

    def look_ups(self) -> Iterable[str]:
        """Return sorted lines of `PassageTriples.look_ups`, asked as late; none by default."""
        return ()


class DealtReading(Reading[ItemT_co], Protocol[ItemT_co]):
    """A reading of the sources, of which a shard's own part comes."""

    deal: "Deal"


class Deal:
    """Deals records to shards and keeps account of all that were dealt.

    Every shard deals the same records in the same order: `count` and `sha256` are then the same in
    all of them, and their `own` add up to `count`.
    """

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.count = self.own = 0
        self._digest = hashlib.sha256()

    def owns(self, record_id: str, record: Record) -> bool:
        """Return whether the record, dealt now under this id, is the shard's own."""
        own = self.shard.owns(record_id)
        self.count += 1
        self.own += own
        if self.shard.count > 1:
            self._digest.update(f"{record_id!a} {to_line(record)}\n".encode("ascii"))
        return own

    def to_json(self) -> dict[str, object]:
        """Return what the shard's card says of it."""
        return {"own": self.own, "all": self.count, "sha256": self._digest.hexdigest()}


def write_shard(
    folder: Path,
    builder: str,
    options: argparse.Namespace,
    read: DealtReading[Item],
) -> dict[str, Any]:
    """Write the items and the card of a shard of the build `builder`; returns the card."""
    shard = read.deal.shard
    progress = tqdm(read.items(), desc=f"shard {shard}", unit="item")
    lines = _write_lines(folder / ITEMS, map(to_line, progress))
    files = {ITEMS: lines, LOOK_UPS: _write_lines(folder / LOOK_UPS, read.look_ups())}
    values = option_values(options)
    card = {
        "title": f"Shard {shard.number} of {shard.count} of a build by {builder}.py",
        "format": FORMAT,
        "builder": builder,
        "shard": shard.number,
        "of": shard.count,
        "arguments": options.arguments,
        "options": values,
        "options_sha256": hashlib.sha256(json.dumps(values).encode()).hexdigest(),
        "inputs": inputs(options),
        "records": read.deal.to_json(),
        "files": files,
        "found": read.found().to_json(),
    }
    write_card(folder, card)
    return card


def report_shard(card: dict[str, Any], options: argparse.Namespace) -> None:
    """Print what a shard made."""
    names = ("builder", "shard", "of", "options_sha256")
    rows = [[name, card[name]] for name in names]
    rows += [["records, own", card["records"]["own"]], ["records, all", card["records"]["all"]]]
    rows.append(["lines", card["files"][ITEMS]["lines"]])
    shown = {key: card[key] for key in (*names, "records", "files")}
    report(card["title"], ["what", "value"], rows, options, shown)


def option_values(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that make the build what it is; of paths the names alone."""
    chosen = {k: v for k, v in vars(options).items() if k not in {*_NOT_OF_THE_BUILD, "arguments"}}
    return {name: _portable(name, value) for name, value in sorted(chosen.items())}


def _portable(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_portable(name, item) for item in value]
    if isinstance(value, NamedPath):
        return f"{value.name}={source_file(value.path)}"
    if isinstance(value, Path) or name == "cap":
        return Path(value).name
    return value


def inputs(options: argparse.Namespace) -> list[dict[str, str]]:
    """Return each file or folder that the build reads with its sha256, '' for the hub's sets."""
    rows = []
    for option in _INPUTS:
        given = getattr(options, option, None) or []
        for value in given if isinstance(given, list) else [given]:
            named = value if isinstance(value, NamedPath) else NamedPath("", str(value))
            rows.append(
                {
                    "option": f"--{option.replace('_', '-')}",
                    "name": named.name,
                    "file": source_file(named.path),
                    "sha256": source_sha256(named.path),
                }
            )
    return rows


def lines_and_sha256(path: Path) -> dict[str, Any]:
    """Return how many lines a file has, and its sha256."""
    digest, count = hashlib.sha256(), 0
    with open(path, "rb") as handle:
        for line in handle:
            digest.update(line)
            count += 1
    return {"lines": count, "sha256": digest.hexdigest()}


def _write_lines(path: Path, lines: Iterable[str]) -> dict[str, Any]:
    """Write a file; returns how many lines it has and its sha256."""
    with open(path, "w", encoding="ascii", newline="\n") as handle:
        handle.writelines(f"{line}\n" for line in lines)
    return lines_and_sha256(path)


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
    for part in shards:
        _check_files(part)
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
    for other in shards[1:]:
        records = other.card["records"]
        if (records["all"], records["sha256"]) != (first["all"], first["sha256"]):
            problem = f"read other records than {shards[0]} ({records['all']} and {first['all']})"
            remedy = "A source, of the hub perhaps, changed: make all again"
            raise ShardError(other, problem, remedy)
    own = sum(part.card["records"]["own"] for part in shards)
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
