"""From the candidates of all sources to the samples: limits, repeats, balance, files, card."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.shards import Shard
from data_gen.builds.build import Build
from data_gen.builds.cards import TriplesFigures
from data_gen.builds.found import AFTER_SOURCES, Found, PassageItem
from data_gen.builds.shards import Reading
from data_gen.builds.triples import QA_SOURCES, TriplesReading, add_triples_options
from data_gen.labelling.labels import RELATIONS_IN_USE, Agreement
from data_gen.samples.sampling import balanced_places
from data_gen.sources.open_source import TRIPLE_SOURCES
from data_gen.sources.splits import hash_fraction
from data_gen.streaming.counts import CountTokens, PlacedCounts
from data_gen.streaming.files import (
    ExternalSort,
    Spool,
    from_line,
    sort_key,
    to_line,
)
from data_gen.streaming.groups import FIRST, FirstByKey, text_key
from models.formats.records import TriplesSample


class TriplesBuild(Build[PassageItem, TriplesSample]):
    """Text-to-triples samples, each text once."""

    name = "build_triples"
    title = "Text-to-triples samples"
    nothing = "the sources hold no text with triples that it states"
    item_type = PassageItem
    shown = ("splits", "figures", "kinds")
    columns = ("what", "samples")

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add sources, alignment and limits."""
        add_triples_options(parser, tuple(dict.fromkeys([*TRIPLE_SOURCES, *QA_SOURCES])))

    def reading(self, shard: Shard) -> TriplesReading:
        """Return the reading of all sources."""
        return TriplesReading(self.options, self.work, shard)

    def samples(self, items: Iterable[PassageItem]) -> "DistinctTexts":
        """Return the samples that limits, repeats and balance leave."""
        self._distinct = DistinctTexts(items, self.options, self.work)
        return self._distinct

    def figures(self, count_tokens: CountTokens) -> TriplesFigures:
        """Return the sizes, to be counted."""
        return TriplesFigures(count_tokens)

    def split_key(self, sample: TriplesSample) -> str:
        """Return the sample's own id."""
        return sample.id

    def card(self, figures: dict[str, Any], read: Reading[PassageItem]) -> dict[str, Any]:
        """Return figures, kinds, sources and the agreement of the labelling functions."""
        known = read.found()
        rows = [_agreement_row(row) for row in known.agreement]
        told = facts_card(figures, self._distinct.kinds, known, self.options.seed)
        return {**told, "labelling_functions": rows}

    def rows(self, card: Mapping[str, Any]) -> list[list[Any]]:
        """Return splits, kinds and broken records."""
        counts = {**card["splits"], **card["kinds"], **card["skipped_records"]}
        return [[name, count] for name, count in counts.items()]


def facts_card(
    figures: dict[str, Any], kinds: PlacedCounts, known: Found, seed: int
) -> dict[str, Any]:
    """Return what the cards of triples and of condition triplets tell alike."""
    kinds.take(known.counts.to_json())
    return {
        "figures": figures,
        "kinds": kinds.ordered(),
        **known.skipped_part(),
        "sources": known.sources,
        "seed": seed,
    }


def _agreement_row(row: Agreement) -> dict[str, Any]:
    return {
        "relation": row.relation,
        "annotated": row.annotated,
        "fired": row.fired,
        "precision": round(row.precision, 3),
        "exact precision": round(row.exact_precision, 3),
        "recall": round(row.recall, 3),
        "in use": row.relation in RELATIONS_IN_USE,
    }


class DistinctTexts:
    """The candidates that become samples, in the order of the build; to be read as often as needed.

    They lie in `work`; memory grows by a byte or two each. `kinds` counts what was decided here.
    """

    def __init__(
        self, items: Iterable[PassageItem], options: argparse.Namespace, work: Path
    ) -> None:
        self.kinds = PlacedCounts()
        self._items = Spool(work / "texts", PassageItem)
        texts = FirstByKey(work, "text")
        for item in _taken(items, options, self.kinds, work):
            if item.sample.triples:
                self._items.add(item)
                texts.add(text_key(item.sample.text))
            else:
                self.kinds.count("nothing stated within the limit of words", 1, *item.place)
        self._kept: npt.NDArray[np.bool_] = texts.verdicts() == FIRST
        self._count_repeats()
        self._balance(options, work)

    def __len__(self) -> int:
        return int(self._kept.sum())

    def __iter__(self) -> Iterator[TriplesSample]:
        return (item.sample for item in self.items())

    def items(self) -> Iterator[PassageItem]:
        """Give the candidates that the samples are of."""
        for item, stays in zip(self._items, self._kept, strict=True):
            if stays:
                yield item

    def _count_repeats(self) -> None:
        repeats = len(self._kept) - len(self)
        if repeats:
            pairs = zip(self._items, self._kept, strict=True)
            place = next(item.place for item, stays in pairs if not stays)
            self.kinds.count("same text again", repeats, *place)

    def _balance(self, options: argparse.Namespace, work: Path) -> None:
        before = len(self)
        if options.balance is not None:
            stays = balanced_places(iter(self), options.balance, options.seed, work)
            self._kept[self._kept] = stays
        name = "left out: common relations alone"
        self.kinds.count(name, before - len(self), AFTER_SOURCES)


def _taken(
    items: Iterable[PassageItem], options: argparse.Namespace, kinds: PlacedCounts, work: Path
) -> Iterator[PassageItem]:
    """Yield candidates that limits and caps leave, with their new places: (source, 5, number)."""
    caps = {cap.name: int(cap.path) for cap in options.cap}
    for source, own in _by_source(items, len(options.source)):
        name, count = options.source[source].name, 0
        if name in QA_SOURCES:
            own = _within_limit(own, source, name, options, kinds)
        if name in caps:
            own, beyond = first_items_by_hash(own, caps[name], options.seed, work)
            if beyond:
                kinds.count(f"{name}, beyond the cap", beyond, source, 4)
        for count, item in enumerate(own, start=1):
            yield replace(item, place=(source, 5, count))
        if name not in QA_SOURCES:
            kinds.count(name, count, source, 4)


def _by_source(
    items: Iterable[PassageItem], count: int
) -> Iterator[tuple[int, Iterator[PassageItem]]]:
    """Yield the candidates of each source, of one without any too; each to be read to its end."""
    source = iter(items)
    waiting = next(source, None)

    def own(number: int) -> Iterator[PassageItem]:
        nonlocal waiting
        while waiting is not None and waiting.place[0] == number:
            yield waiting
            waiting = next(source, None)

    for number in range(count):
        yield number, own(number)


def _within_limit(
    items: Iterable[PassageItem],
    source: int,
    name: str,
    options: argparse.Namespace,
    kinds: PlacedCounts,
) -> Iterator[PassageItem]:
    """Yield annotated passages and the first ones with weak labels alone, less those with gaps."""
    annotated = weak = gaps = 0
    for item in items:
        if item.weak:
            limit = annotated if options.weak_only_limit is None else options.weak_only_limit
            if weak >= limit:
                continue
            weak += 1
        else:
            annotated += 1
        if item.gap:
            gaps += 1
        else:
            yield item
    kinds.count(f"{name}, weak labels alone", weak, source, 2)
    if options.drop_gaps:
        kinds.count("left out: tells a relation without a label", gaps, source, 3)


def first_items_by_hash(
    items: Iterable[PassageItem], limit: int, seed: int, work: Path
) -> tuple[Iterator[PassageItem], int]:
    """At most `limit` candidates in an order by a hash of their ids, and how many are beyond."""
    order = ExternalSort(work)
    for number, item in enumerate(items):
        place = hash_fraction(f"cap/{item.sample.id}", seed)
        order.add(sort_key(place, number), to_line(item))
    first = (from_line(line, PassageItem) for line in order.first(limit))
    return first, max(len(order) - limit, 0)
