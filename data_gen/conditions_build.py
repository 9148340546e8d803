"""Candidates for condition triplets of all sources of one build, passage by passage."""

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from data_gen.aligned_passages import sample_id, supporting_titles
from data_gen.condition_triplets import conditions_of_facts
from data_gen.fact_tables import as_table, is_table
from data_gen.found import Found
from data_gen.passage_items import SENTENCES, PassageItem
from data_gen.sentence_claims import conditions_of_sentences
from data_gen.solving_steps import context_passages
from data_gen.source_args import NamedPath, source_entry
from data_gen.sources.open_source import read_questions
from data_gen.streaming.disk_groups import DiskGroups
from data_gen.triples_build import TriplesBuild
from data_gen.weak_triples import weak_triples
from evaluation.shards import WHOLE, Shard
from models.formats.conditions import ConditionTriplet
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord, QuestionRecord, TriplesSample

SENTENCE_SOURCE = "hotpotqa"


class ConditionsBuild:
    """Makes the candidates of all sources and counts what the card says about them.

    Sources with annotated facts give them by way of `TriplesBuild`; HotpotQA gives its supporting
    sentences, and with them what labelling functions find in the same passage. `work` and `shard`
    are as there.
    """

    def __init__(self, options: argparse.Namespace, work: Path, shard: Shard = WHOLE) -> None:
        self.options, self.work = options, work
        self.facts = TriplesBuild(facts_options(options), work, shard)
        self.deal = self.facts.deal
        self.skipped = self.facts.skipped
        self.kinds = self.facts.kinds
        self.sources = self.facts.sources

    def items(self) -> Iterator[PassageItem]:
        """The candidates of every source; those of facts first."""
        for item in self.facts.items():
            # A shard makes the triplets of all its passages; a whole build of those that it takes.
            parted = self.deal.shard.count > 1
            yield with_triplets(item, self.options.max_triplets) if parted else item
        sentences = (source for source in self.options.source if source.name == SENTENCE_SOURCE)
        for number, source in enumerate(sentences):
            yield from self._sentences(SENTENCES + number, source)

    def found(self) -> Found:
        """What was counted so far."""
        return self.facts.found()

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
            if passage.title in self.facts.excluded:
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
    """The options of the part of a build that goes by way of `TriplesBuild`."""
    facts = [source for source in options.source if source.name != SENTENCE_SOURCE]
    return argparse.Namespace(**{**vars(options), "source": facts})


def with_triplets(item: PassageItem, limit: int) -> PassageItem:
    """A candidate with the condition triplets of its facts, where it has none yet."""
    if item.triplets is not None:
        return item
    sample = item.sample
    return _chosen_triplets(item, conditions_of_facts(sample.text, sample.triples), limit)


def as_table_item(item: PassageItem, options: argparse.Namespace) -> PassageItem | None:
    """A passage as a table of its facts, whose rows are the triplets' proofs.

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
    """The first triplets of a passage in the order of their proofs, each condition once."""
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
        """Each passage once, in the order in which they came."""
        for payload, indices in self._found.groups():
            fields, sentences = json.loads(payload)
            yield PassageRecord(**fields), sentences, sorted(map(int, indices))

    def close(self) -> None:
        """Give the memory back."""
        self._found.close()
