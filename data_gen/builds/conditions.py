"""Condition triplets of all sources of one build: candidates, repeats, limits, files."""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.commands import share
from common.shards import Shard
from data_gen.builds.build import Build
from data_gen.builds.cards import ConditionsFigures
from data_gen.builds.found import AFTER_SOURCES, SENTENCES, PassageItem
from data_gen.builds.shards import Reading
from data_gen.builds.triples import QA_SOURCES, TriplesReading, add_triples_options
from data_gen.builds.triples_files import DistinctTexts, facts_card
from data_gen.facts.aligned_passages import sample_id, supporting_titles
from data_gen.labelling.labels import weak_triples
from data_gen.samples.conditions import (
    as_table,
    conditions_of_facts,
    conditions_of_sentences,
    is_table,
)
from data_gen.sources.arguments import NamedPath, source_entry
from data_gen.sources.open_source import TRIPLE_SOURCES, read_questions
from data_gen.streaming.counts import CountTokens, PlacedCounts
from data_gen.streaming.files import EveryFew, Spool
from data_gen.streaming.groups import FIRST, DiskGroups, FirstByKey, text_key
from models.formats.conditions import ConditionTriplet
from models.formats.passages import context_passages
from models.formats.prompts import passage_text
from models.formats.records import ConditionSample, PassageRecord, QuestionRecord, TriplesSample

SENTENCE_SOURCE = "hotpotqa"
SAMPLES_TO_READ = 20


class ConditionsReading(TriplesReading):
    """Makes the candidates of all sources and counts what the card says about them.

    Sources with annotated facts give them as in a build of triples; HotpotQA gives its supporting
    sentences, and with them what labelling functions find in the same passage.
    """

    def __init__(self, options: argparse.Namespace, work: Path, shard: Shard) -> None:
        super().__init__(facts_options(options), work, shard)
        self._of_sentences = [s for s in options.source if s.name == SENTENCE_SOURCE]

    def items(self) -> Iterator[PassageItem]:
        """Yield the candidates of every source; those of facts first."""
        for item in super().items():
            # A shard makes the triplets of all its passages; a whole build of those that it takes.
            parted = self.deal.shard.count > 1
            yield with_triplets(item, self.options.max_triplets) if parted else item
        for number, source in enumerate(self._of_sentences):
            yield from self._sentences(SENTENCES + number, source)

    def _sentences(self, number: int, source: NamedPath) -> Iterator[PassageItem]:
        on_error = self.skipped.handler(source.name)
        found = _SupportingSentences(self.work)
        count = beyond = 0
        for record in tqdm(read_questions(source.name, source.path, on_error), source.name):
            if self.options.limit is None or count < self.options.limit:
                count += 1
                found.add(record)
            else:
                beyond += self.deal.shard.owns(record.id)
        if beyond:
            self.kinds.count("left out: a question beyond the limit", beyond, number, -1)
        self.sources.append(source_entry(source, count))
        for place, (passage, sentences, chosen) in enumerate(found.passages()):
            if not self.deal.owns(sample_id(source.name, passage), passage):
                continue
            self.kinds.place = (number, place, 0)
            if passage.title in self.excluded:
                self.kinds["left out: supports a test question"] += 1
                continue
            text = passage_text(passage.title, passage.text)
            stated = conditions_of_facts(text, weak_triples(passage.title, passage.text))
            told = conditions_of_sentences(passage.title, sentences, chosen)
            if not told and not stated:
                self.kinds["left out: no sentence that can be read alone"] += 1
                continue
            self.kinds[source.name] += 1
            sample = TriplesSample(sample_id(source.name, passage), text, [])
            item = PassageItem((number, place), sample)
            yield _chosen_triplets(item, [*stated, *told], self.options.max_triplets)
        found.close()


def facts_options(options: argparse.Namespace) -> argparse.Namespace:
    """Return the options of the part of a build that goes by way of `TriplesReading`."""
    facts = [source for source in options.source if source.name != SENTENCE_SOURCE]
    return argparse.Namespace(**{**vars(options), "source": facts})


def with_triplets(item: PassageItem, limit: int) -> PassageItem:
    """Return a candidate with the condition triplets of its facts, where it has none yet."""
    if item.triplets is not None:
        return item
    sample = item.sample
    return _chosen_triplets(item, conditions_of_facts(sample.text, sample.triples), limit)


def as_table_item(item: PassageItem, options: argparse.Namespace) -> PassageItem | None:
    """Return a passage as a table of its facts, whose rows are the triplets' proofs.

    None for one that `--tables` does not choose, or with too few facts.
    """
    chosen = is_table(item.sample, options.tables, options.seed)
    made = as_table(item.sample, options.seed) if chosen else None
    if made is None:
        return None
    table, rows = made
    triplets = conditions_of_facts(table.text, table.triples)
    quoting = [replace(t, proof=row) for t, row in zip(triplets, rows, strict=True)]
    return _chosen_triplets(replace(item, sample=table), quoting, options.max_triplets)


def _chosen_triplets(
    item: PassageItem, triplets: Iterable[ConditionTriplet], limit: int
) -> PassageItem:
    """Return the first triplets of a passage in the order of their proofs, each condition once."""
    text = item.sample.text
    distinct: dict[str, ConditionTriplet] = {}
    for triplet in triplets:
        distinct.setdefault(triplet.condition, triplet)
    ordered = sorted(distinct.values(), key=lambda t: max(text.find(t.proof or "\0"), 0))
    kept = tuple(ordered[:limit])
    return replace(item, triplets=kept, left_out=len(ordered) - len(kept))


class _SupportingSentences:
    """Passages that support a question, their sentences, and which of these support any."""

    def __init__(self, work: Path) -> None:
        self._found = DiskGroups(work)

    def add(self, record: QuestionRecord) -> None:
        """Take in the supporting passages of one question."""
        titles = supporting_titles([record])
        passages = context_passages(record)
        for passage, (title, sentences) in zip(passages, record.context, strict=True):
            if title not in titles:
                continue
            key, payload = json.dumps([title, passage.text]), json.dumps([vars(passage), sentences])
            self._found.add(key, payload)
            for name, index in record.supporting_facts:
                if name == title and index < len(sentences):
                    self._found.add(key, value=str(index))

    def passages(self) -> Iterator[tuple[PassageRecord, list[str], list[int]]]:
        """Yield each passage once, in the order in which they came."""
        for payload, indices in self._found.groups():
            fields, sentences = json.loads(payload)
            yield PassageRecord(**fields), sentences, sorted(map(int, indices))

    def close(self) -> None:
        """Give the memory back."""
        self._found.close()


class ConditionsBuild(Build[PassageItem, ConditionSample]):
    """Condition triplets, each passage once."""

    name = "build_conditions"
    title = "Condition triplets"
    nothing = "the sources hold no passage with facts that it states"
    item_type = PassageItem
    shown = ("splits", "figures", "kinds")
    columns = ("what", "count")
    keep_together = True

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add triplets and tables, and the options of triples."""
        parser.add_argument(
            "--max-triplets", type=int, default=6, metavar="N", help="of one passage at most N (6)"
        )
        parser.add_argument(
            "--tables", type=share, default=0.0, metavar="SHARE",
            help="passages with facts that are rewritten as a table of labels and values (0)",
        )  # fmt: skip
        names = dict.fromkeys([SENTENCE_SOURCE, *TRIPLE_SOURCES, *QA_SOURCES])
        add_triples_options(parser, tuple(names))

    def reading(self, shard: Shard) -> ConditionsReading:
        """Return the reading of all sources."""
        return ConditionsReading(self.options, self.work, shard)

    def samples(self, items: Iterable[PassageItem]) -> Spool[ConditionSample]:
        """Return one record for each triplet, of each text once."""
        self._kinds = PlacedCounts()
        samples = Spool(self.work / "conditions", ConditionSample)
        passages = _passages(items, self.options, self._kinds, self.work)
        for sample in _samples(passages, self._kinds, self.work):
            samples.add(sample)
        return samples

    def figures(self, count_tokens: CountTokens) -> ConditionsFigures:
        """Return the sizes, to be counted."""
        return ConditionsFigures(count_tokens, self.work)

    def split_key(self, sample: ConditionSample) -> str:
        """Return the passage: its records share a split."""
        return sample.id.rsplit("/", 1)[0]

    def examples(self, count: int) -> EveryFew[ConditionSample]:
        """Return what picks samples at equal distances."""
        return EveryFew(SAMPLES_TO_READ, count)

    def card(self, figures: dict[str, Any], read: Reading[PassageItem]) -> dict[str, Any]:
        """Return figures, kinds and sources."""
        return facts_card(figures, self._kinds, read.found(), self.options.seed)

    def rows(self, card: Mapping[str, Any]) -> list[list[Any]]:
        """Return splits, passages, kinds and broken records."""
        kinds = {"passages": card["figures"]["passages"], **card["kinds"]}
        counts = {**card["splits"], **kinds, **card["skipped_records"]}
        return [[name, count] for name, count in counts.items()]


def _passages(
    items: Iterable[PassageItem], options: argparse.Namespace, kinds: PlacedCounts, work: Path
) -> Iterator[PassageItem]:
    """Yield passages with their triplets: those of facts as `DistinctTexts` has them come first."""
    parts = groupby(items, key=lambda item: item.place[0] >= SENTENCES)
    waiting = next(parts, None)
    facts: Iterable[PassageItem] = () if waiting is None or waiting[0] else waiting[1]
    distinct = DistinctTexts(facts, facts_options(options), work)
    kinds.take(distinct.kinds.to_json())
    for number, item in enumerate(distinct.items()):
        # Of the distinct texts alone, so that shards and a whole build choose the same.
        table = as_table_item(item, options)
        if table is not None:
            kinds.place = (AFTER_SOURCES + 1, number)
            kinds["rewritten as a table"] += 1
        made = table or with_triplets(item, options.max_triplets)
        yield replace(made, place=(AFTER_SOURCES + 1, number))
    if waiting is not None and not waiting[0]:
        waiting = next(parts, None)
    yield from waiting[1] if waiting is not None else ()


def _samples(
    passages: Iterable[PassageItem], kinds: PlacedCounts, work: Path
) -> Iterator[ConditionSample]:
    """Yield one record for each triplet, of each text once: from the source that gave it first."""
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
