"""From the candidates of all sources to condition triplets: repeats, limits, files and card."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_gen.card import token_counter, write_card
from data_gen.conditions_build import facts_options, with_triplets
from data_gen.figures import ConditionsFigures
from data_gen.found import Found
from data_gen.passage_items import AFTER_SOURCES, SENTENCES, PassageItem
from data_gen.streaming.first_by_key import FIRST, FirstByKey, text_key
from data_gen.streaming.observed import observed
from data_gen.streaming.placed_counts import PlacedCounts
from data_gen.streaming.spool import Spool
from data_gen.triples_finish import DistinctTexts
from data_gen.write_splits import write_splits
from models.formats.records import ConditionSample

SAMPLES_TO_READ = 20


def passage_of(sample: ConditionSample) -> str:
    """What the records of one passage share."""
    return sample.id.rsplit("/", 1)[0]


def finish_conditions(
    items: Iterable[PassageItem],
    found: Callable[[], Found],
    options: argparse.Namespace,
    folder: Path,
    work: Path,
) -> dict[str, Any]:
    """Write the splits and the card to `folder`; returns the card.

    items: in the order of the build, those of facts first. found: asked when they have been read.
    Raises SystemExit when there are no samples.
    """
    kinds = PlacedCounts()
    samples = Spool(work / "conditions", ConditionSample)
    for sample in _samples(_passages(items, options, kinds, work), kinds, work):
        samples.add(sample)
    if not len(samples):
        raise SystemExit("no samples: the sources hold no passage with facts that it states")
    count_tokens, unit = token_counter(options.tokenizer)
    figures, examples = ConditionsFigures(count_tokens, work), _EveryFew(len(samples))
    seen = observed(tqdm(samples, desc="writing", unit="sample"), figures.add, examples.add)
    splits = write_splits(
        folder, seen, passage_of, options.seed, options.fractions, keep_together=True
    )
    known = found()
    kinds.take(known.counts.to_json())
    card = {
        "title": "Condition triplets",
        "splits": splits,
        "counted_in": unit,
        "figures": figures.figures(),
        "kinds": kinds.ordered(),
        "skipped_records": dict(known.skipped),
        "skipped_examples": known.skipped_examples,
        "sources": known.sources,
        "seed": options.seed,
        "samples_to_read": [sample.to_json() for sample in examples.samples],
    }
    write_card(folder, card)
    return card


def _passages(
    items: Iterable[PassageItem], options: argparse.Namespace, kinds: PlacedCounts, work: Path
) -> Iterator[PassageItem]:
    """Passages with their triplets: those of facts as `DistinctTexts` has them, then sentences."""
    parts = groupby(items, key=lambda item: item.place[0] >= SENTENCES)
    waiting = next(parts, None)
    facts: Iterable[PassageItem] = () if waiting is None or waiting[0] else waiting[1]
    distinct = DistinctTexts(facts, facts_options(options), work)
    kinds.take(distinct.kinds.to_json())
    for number, item in enumerate(distinct):
        made = replace(with_triplets(item, options), place=(AFTER_SOURCES + 1, number))
        if made.table:
            kinds.count("rewritten as a table", 1, *made.place, 0)
            made = replace(made, sample=replace(made.sample, text=made.table))
        yield made
    if waiting is not None and not waiting[0]:
        waiting = next(parts, None)
    yield from waiting[1] if waiting is not None else ()


def _samples(
    passages: Iterable[PassageItem], kinds: PlacedCounts, work: Path
) -> Iterator[ConditionSample]:
    """One record a triplet, of each text once: none for what another source has given before."""
    spool = Spool(work / "passages", PassageItem)
    texts = FirstByKey(work, "passage")
    for item in passages:
        spool.add(item)
        texts.add(text_key(item.sample.text))
    for item, verdict in zip(spool, texts.verdicts(), strict=True):
        kinds.place = (*item.place, 1)
        if verdict != FIRST:
            kinds["left out: another source's passage"] += 1
            continue
        kinds["left out: more triplets than a passage may give"] += item.left_out
        for number, triplet in enumerate(item.triplets or ()):
            yield ConditionSample(f"{item.sample.id}/{number}", item.sample.text, **vars(triplet))


class _EveryFew:
    """Samples to read, at equal distances in the build."""

    def __init__(self, count: int) -> None:
        self._step = max(count // SAMPLES_TO_READ, 1)
        self._seen = 0
        self.samples: list[ConditionSample] = []

    def add(self, sample: ConditionSample) -> None:
        """See the next sample."""
        if self._seen % self._step == 0 and len(self.samples) < SAMPLES_TO_READ:
            self.samples.append(sample)
        self._seen += 1
