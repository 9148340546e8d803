"""The course of every build: records, samples, splits and card, of one reading or of merged shards.

A kind of build (`Build`) says what is its own: its options, how its sources are read, how samples
are chosen of what was read, their figures, what its card tells. `build_command` is its main.
"""

import argparse
import json
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tqdm import tqdm

from common.commands import command_parser, log_warnings, one_line_errors
from common.shards import WHOLE, Shard, shard
from common.tables import report
from data_gen.builds.cards import token_counter, write_card
from data_gen.builds.shards import (
    DealtReading,
    Reading,
    report_shard,
    write_shard,
)
from data_gen.sources.arguments import add_common_options
from data_gen.sources.splits import SPLITS, hash_fraction, split_of
from data_gen.streaming.counts import CountTokens
from data_gen.streaming.files import (
    ExternalSort,
    FirstFew,
    observed,
    output,
    record_files,
    sort_key,
    workspace,
)
from models.formats.records import (
    ConditionSample,
    InstructionSample,
    RasSample,
    Record,
    TriplesSample,
)
from models.formats.retrieval import RetrievalSample

logger = logging.getLogger(__name__)
Sample = TypeVar(
    "Sample", RasSample, TriplesSample, ConditionSample, InstructionSample, RetrievalSample
)
ItemT = TypeVar("ItemT", bound=Record)
SampleT_co = TypeVar("SampleT_co", covariant=True)
SeenT = TypeVar("SeenT", contravariant=True)


class Samples(Protocol[SampleT_co]):
    """Samples that are counted and can be read."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[SampleT_co]: ...


class Figures(Protocol[SeenT]):
    """Counts samples as they pass."""

    def add(self, sample: SeenT, /) -> None:
        """Count one sample."""
        ...

    def figures(self) -> dict[str, Any]:
        """Return what was counted."""
        ...


class Build(ABC, Generic[ItemT, Sample]):
    """One build, with its options and a folder to work in.

    name: of the command, as shards' cards have it. title: of the card. nothing: what is wrong where
    there are no samples; both may name options in braces. item_type: what is read and dealt to
    shards, where there are `shards`. shown: the card's keys that --json prints. columns: of the
    printed table. keep_together: samples of one split key follow each other in their file.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    nothing: ClassVar[str]
    item_type: type[ItemT]
    shown: ClassVar[tuple[str, ...]]
    columns: ClassVar[tuple[str, ...]]
    shards: ClassVar[bool] = True
    keep_together: ClassVar[bool] = False

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.options, self.work = options, work

    @classmethod
    @abstractmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add the options that only this kind has."""

    @classmethod
    def check_options(cls, parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
        """End with an error where options contradict each other."""

    @abstractmethod
    def reading(self, shard: Shard) -> DealtReading[ItemT]:
        """Return the first half: a reading of the sources, of which the shard's own comes."""

    @abstractmethod
    def samples(self, items: Iterable[ItemT]) -> Samples[Sample]:
        """Return the second half: the samples of what was read, in the order of the build."""

    @abstractmethod
    def figures(self, count_tokens: CountTokens) -> Figures[Sample]:
        """Return what counts the samples."""

    @abstractmethod
    def split_key(self, sample: Sample) -> str:
        """Return what samples of one split share."""

    @abstractmethod
    def card(self, figures: dict[str, Any], read: Reading[ItemT]) -> dict[str, Any]:
        """Return what the card tells between the splits and the samples to read."""

    @abstractmethod
    def rows(self, card: Mapping[str, Any]) -> list[list[Any]]:
        """Return the rows of the printed table."""

    def heading(self) -> dict[str, Any]:
        """Return what stands at the head of the card."""
        return {"title": self.title.format(**vars(self.options))}

    def chosen(self, *names: str) -> dict[str, Any]:
        """Return some of the options, as a card has them."""
        given = ((name, getattr(self.options, name)) for name in names)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in given}

    def examples(self, count: int) -> FirstFew[Sample]:
        """Return what picks the samples to read among `count`: the first five."""
        return FirstFew(5)

    def see(self, sample: Sample) -> None:
        """See each sample as it is written."""

    def finish(self, read: Reading[ItemT], folder: Path) -> dict[str, Any]:
        """Write the splits and the card to `folder`; returns the card.

        Samples pass through files in `work`: memory does not grow with them but for a few bytes
        each. Raises SystemExit when there are none.
        """
        samples = self.samples(read.items())
        if not len(samples):
            raise SystemExit(f"no samples: {self.nothing.format(**vars(self.options))}")
        examples = self.examples(len(samples))
        splits, figures, unit = write_samples(
            folder,
            tqdm(samples, desc="writing", unit="sample"),
            self.figures,
            self.split_key,
            self.options,
            self.see,
            examples.add,
            keep_together=self.keep_together,
        )
        card = {
            **self.heading(),
            "splits": splits,
            "counted_in": unit,
            **self.card(figures, read),
            "samples_to_read": [sample.to_json() for sample in examples.items],
        }
        write_card(folder, card)
        return card

    def report(self, card: Mapping[str, Any]) -> None:
        """Print what was made."""
        shown = {key: card[key] for key in self.shown}
        report(card["title"], self.columns, self.rows(card), self.options, shown)


def write_samples(
    folder: Path,
    samples: Iterable[Sample],
    figures: Callable[[CountTokens], Figures[Sample]],
    split_key: Callable[[Sample], str],
    options: argparse.Namespace,
    *observers: Callable[[Sample], None],
    keep_together: bool = False,
) -> tuple[dict[str, int], dict[str, Any], str]:
    """Write samples to the files of their splits, counted and shown to `observers` on the way.

    Returns how many each split has, the figures, and what their token counts count.
    """
    count_tokens, unit = token_counter(options.tokenizer)
    counted = figures(count_tokens)
    seen = observed(samples, counted.add, *observers)
    splits = write_splits(
        folder, seen, split_key, options.seed, options.fractions, keep_together=keep_together
    )
    return splits, counted.figures(), unit


def parse_build(
    kind: type[Build[Any, Any]], description: str | None, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Read the command line of a build."""
    parser = command_parser(description)
    kind.add_options(parser)
    add_common_options(parser)
    if kind.shards:
        parser.add_argument(
            "--shard", type=shard, metavar="I/N",
            help="make part I of N, from 1; data_gen/merge_shards.py puts the parts together",
        )  # fmt: skip
    # As they were given, for a shard's card.
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(given, argparse.Namespace(arguments=given))
    kind.check_options(parser, options)
    return options


def build_command(kind: type[Build[Any, Any]], description: str | None) -> Callable[..., None]:
    """Return the main of a build's command, which makes the whole of it or, with --shard, a part.

    description: the command's own, for its help.
    """

    @one_line_errors(OSError, ValueError)
    def main(arguments: Sequence[str] | None = None) -> None:
        """Run the command."""
        options = parse_build(kind, description, arguments)
        log_warnings(options)
        part = getattr(options, "shard", None)
        with output(options.out) as (folder, work):
            build = kind(options, work)
            read = build.reading(part or WHOLE)
            if part:
                card = write_shard(folder, kind.name, options, read)
            else:
                card = build.finish(read, folder)
        if part:
            report_shard(card, options)
        else:
            build.report(card)

    return main


def write_splits(
    folder: Path,
    samples: Iterable[Sample],
    split_key: Callable[[Sample], str],
    seed: int,
    fractions: Sequence[float],
    keep_together: bool = False,
) -> dict[str, int]:
    """Write train, dev and test files by a hash of each sample's `split_key`; returns the counts.

    Samples of one key share a split. Within a file the order is that of a hash of the ids or,
    with `keep_together`, of the keys, so that samples of one key follow each other as given. The
    samples are read once; they are sorted on disk, in `folder`, where they do not fit in memory.
    """
    order_key = split_key if keep_together else attrgetter("id")
    counts: dict[str, int] = dict.fromkeys(SPLITS, 0)
    with workspace(folder) as work:
        order = ExternalSort(work)
        for number, sample in enumerate(samples):
            split = split_of(split_key(sample), seed, fractions)
            place = sort_key(hash_fraction(f"order/{order_key(sample)}", seed), number)
            line = json.dumps(sample.to_json(), ensure_ascii=False)
            try:
                order.add(f"{SPLITS.index(split)}{place}", f"{SPLITS.index(split)}{line}")
            except UnicodeEncodeError as error:
                problem = f"holds a character that UTF-8 has not ({error})"
                raise ValueError(f"sample {sample.id!a} {problem}. Correct its source") from None
            counts[split] += 1
        with record_files(folder, SPLITS) as files:
            for line in order:
                files[SPLITS[int(line[0])]].write(f"{line[1:]}\n")
    for split, share in zip(SPLITS, fractions, strict=True):
        if share > 0 and not counts[split]:
            logger.warning("the %s split is empty; a world keeps its own with --fractions", split)
    return counts
