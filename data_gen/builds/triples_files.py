"""From the candidates of all sources to the samples: limits, repeats, balance, files, card."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from data_gen.builds.cards import TriplesFigures, token_counter, write_card
from data_gen.builds.found import AFTER_SOURCES, Found, PassageItem
from data_gen.builds.triples import QA_SOURCES
from data_gen.builds.write_splits import write_splits
from data_gen.labelling.labels import RELATIONS_IN_USE, Agreement
from data_gen.samples.sampling import balanced_places
from data_gen.sources.splits import hash_fraction
from data_gen.streaming.counts import PlacedCounts
from data_gen.streaming.files import (
    ExternalSort,
    FirstFew,
    Spool,
    from_line,
    observed,
    sort_key,
    to_line,
)
from data_gen.streaming.groups import FIRST, FirstByKey, text_key
from models.formats.records import TriplesSample


def finish_triples(
    items: Iterable[PassageItem],
    found: Callable[[], Found],
    options: argparse.Namespace,
    folder: Path,
    work: Path,
) -> dict[str, Any]:
    """Write the splits and the card to `folder`; returns the card.

    items: in the order of the build. found: asked when they have been read. Raises SystemExit when
    there are no samples.
    """
    distinct = DistinctTexts(items, options, work)
    if not len(distinct):
        raise SystemExit("no samples: the sources hold no text with triples that it states")
    count_tokens, unit = token_counter(options.tokenizer)
    figures, examples = TriplesFigures(count_tokens), FirstFew[TriplesSample](5)
    samples = (item.sample for item in tqdm(distinct, desc="writing", unit="sample"))
    seen = observed(samples, figures.add, examples.add)
    splits = write_splits(folder, seen, lambda s: s.id, options.seed, options.fractions)
    known = found()
    distinct.kinds.take(known.counts.to_json())
    card = {
        "title": "Text-to-triples samples",
        "splits": splits,
        "counted_in": unit,
        "figures": figures.figures(),
        "kinds": distinct.kinds.ordered(),
        "skipped_records": dict(known.skipped),
        "skipped_examples": known.skipped_examples,
        "sources": known.sources,
        "seed": options.seed,
        "labelling_functions": [_agreement_row(row) for row in known.agreement],
        "samples_to_read": [sample.to_json() for sample in examples.items],
    }
    write_card(folder, card)
    return card


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

    def __iter__(self) -> Iterator[PassageItem]:
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
            samples = (item.sample for item in self)
            stays = balanced_places(samples, options.balance, options.seed, work)
            self._kept[self._kept] = stays
        name = "left out: common relations alone"
        self.kinds.count(name, before - len(self), AFTER_SOURCES)


def _taken(
    items: Iterable[PassageItem], options: argparse.Namespace, kinds: PlacedCounts, work: Path
) -> Iterator[PassageItem]:
    """The candidates that limits and caps leave, with their new places: (source, 5, number)."""
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
    """The candidates of each source, of one without any too; each to be read to its end."""
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
    """Annotated passages and the first ones with weak labels alone, less those with gaps."""
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
