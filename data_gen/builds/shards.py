"""Parts of a build for an array of jobs: dealt out, and each written to a folder of its own."""

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tqdm import tqdm

from common.shards import Shard, shard
from common.tables import report
from data_gen.builds.cards import write_card
from data_gen.builds.found import Found
from data_gen.sources.arguments import NamedPath, source_file, source_sha256
from data_gen.streaming.counts import Place
from data_gen.streaming.files import Spooled, to_line

FORMAT = 1
ITEMS, LOOK_UPS = "items.jsonl", "look_ups.txt"
_NOT_OF_THE_BUILD = {"out", "json", "shard"}
_INPUTS = ("source", "corpus", "triples", "no_retrieval", "exclude", "evidences")


class Item(Spooled, Protocol):
    """One record's part of a build, dealt to a shard by its id and ordered by its place."""

    @property
    def id(self) -> str:
        """The id by which it is dealt to a shard."""
        ...

    @property
    def place(self) -> Place:
        """Return where in the build it stands."""
        ...


ItemT_co = TypeVar("ItemT_co", bound=Spooled, covariant=True)


class Reading(Protocol[ItemT_co]):
    """The first half of a build: of its sources, or of shards that are put together."""

    def items(self) -> Iterator[ItemT_co]:
        """Give the items in the order of the build."""
        ...

    def found(self) -> Found:
        """Return what was counted; asked when the items have been read."""
        ...

    def look_ups(self) -> Iterable[str]:
        """Return sorted lines of `PassageTriples.look_ups`; asked as late."""
        ...


class DealtReading(Reading[ItemT_co], Protocol[ItemT_co]):
    """A reading of the sources, of which a shard's own part comes."""

    @property
    def deal(self) -> "Deal":
        """Return what deals the records to shards."""
        ...


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


def add_shard_option(parser: argparse.ArgumentParser) -> None:
    """The option of the builders that can make a part of their build."""
    parser.add_argument(
        "--shard", type=shard, metavar="I/N",
        help="make part I of N, from 1; data_gen/merge_shards.py puts the parts together",
    )  # fmt: skip


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
    """Return the options that make the build what it is; of a path the file's name, wherever it
    lies.
    """
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
    """Return every file or folder that the build reads, with its sha256; '' for a data set of the
    hub.
    """
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
    """Write a file; how many lines it has and its sha256."""
    digest, count = hashlib.sha256(), 0
    with open(path, "wb") as handle:
        for line in lines:
            data = f"{line}\n".encode("ascii")
            handle.write(data)
            digest.update(data)
            count += 1
    return {"lines": count, "sha256": digest.hexdigest()}
