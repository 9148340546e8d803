"""Candidates for text-to-triples samples, of all sources of one build."""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.shards import WHOLE, Shard
from data_gen.builds.found import Found, PassageItem
from data_gen.builds.shards import Deal, DealtReading
from data_gen.facts.aligned_passages import (
    aligned_sample,
    sample_id,
    shortened,
    stated_facts,
    supporting_texts,
    supporting_titles,
    weak_place,
    weak_sample,
)
from data_gen.facts.entities import mentions
from data_gen.facts.passage_triples import MAX_TARGET_TRIPLES
from data_gen.labelling.labels import Agreement, added_up, measure_labels, unlabelled_relations
from data_gen.sources.arguments import NamedPath, SkippedRecords, named_path, source_entry
from data_gen.sources.open_source import read_questions, read_triples
from data_gen.sources.texts import file_subsets, read_contract_triples
from data_gen.streaming.counts import Place, PlacedCounts
from data_gen.streaming.files import ExternalSort, fraction_bits, from_line, sort_key, to_line
from data_gen.streaming.groups import DiskGroups, PassageTable
from models.formats.passages import passage_key
from models.formats.records import PassageRecord, TriplesSample, read_records
from models.formats.triples import Triple

QA_SOURCES = ("2wikimultihopqa", "musique")


def add_triples_options(parser: argparse.ArgumentParser, names: tuple[str, ...]) -> None:
    """Options of `TriplesReading`, for every builder that goes by way of it.

    names: of the sources.
    """
    parser.add_argument(
        "--source", type=named_path(names), action="append", required=True, metavar="NAME=PATH",
        help=f"a source, several times; NAME: {', '.join(names)}",
    )  # fmt: skip
    parser.add_argument(
        "--datasets", type=lambda text: text.split(","), metavar="A,B",
        help="of contract sources only records whose 'dataset' is named",
    )  # fmt: skip
    parser.add_argument(
        "--corpus", type=Path, help="passages (id, title, text) that 2wikimultihopqa aligns with"
    )
    parser.add_argument(
        "--evidences", type=Path, action="append", default=[], metavar="PATH",
        help="further 2wikimultihopqa questions with evidence triples, with or without text",
    )  # fmt: skip
    parser.add_argument(
        "--exclude", type=Path, action="append", default=[], metavar="PATH",
        help="test questions (contract form): passages that support them are left out",
    )  # fmt: skip
    parser.add_argument(
        "--weak-only-limit", type=int, metavar="N",
        help="passages with weak labels alone (as many as aligned ones)",
    )  # fmt: skip
    parser.add_argument(
        "--cap", type=named_path(names), action="append", default=[], metavar="NAME=N",
        help="at most N samples of a source, chosen by a hash of their ids",
    )  # fmt: skip
    parser.add_argument(
        "--drop-gaps", action="store_true",
        help="leave out aligned passages that seem to tell a relation which no label holds",
    )  # fmt: skip
    parser.add_argument(
        "--balance", type=int, metavar="N",
        help="keep a sample while one of its relations stands in fewer than N kept ones (all)",
    )  # fmt: skip
    parser.add_argument(
        "--grounded", action="store_true",
        help="of text-triple sources keep only triples whose subject and object are in the text",
    )  # fmt: skip
    parser.add_argument(
        "--max-words", type=int, metavar="N",
        help="cut longer texts after the last sentence within N words, and what it stated (off)",
    )  # fmt: skip
    parser.add_argument("--limit", type=int, help="read at most N records of each source")


class TriplesReading(DealtReading[PassageItem]):
    """Makes the candidates of all sources and counts what the card says about them.

    What grows with the sources lies in `work`. Of a `shard`, every record is read and its facts
    taken in, but only the shard's own texts and passages are labelled, counted and given out.
    """

    def __init__(self, options: argparse.Namespace, work: Path, shard: Shard = WHOLE) -> None:
        self.options, self.work = options, work
        self.deal = Deal(shard)
        self.skipped = SkippedRecords(options.skip_bad)
        # How many samples of each kind, and how many were left out for which reason.
        self.kinds = PlacedCounts()
        self.sources: list[dict[str, object]] = []
        self.agreement: list[Agreement] = []
        # Without one that cannot be read it is not known what must be left out.
        excluded = [r for path in options.exclude for r in read_questions("contract", path)]
        self.excluded = supporting_titles(excluded)
        self.excluded_texts = supporting_texts(excluded)

    def items(self) -> Iterator[PassageItem]:
        """Yield the candidates of every source, in the order of the build."""
        for number, source in enumerate(self.options.source):
            read = self._passages if source.name in QA_SOURCES else self._texts
            yield from read(number, source)

    def found(self) -> Found:
        """Return the counts so far."""
        return Found.of(self.kinds, self.skipped, self.sources, self.agreement)

    def _item(self, place: Place, sample: TriplesSample, gap: bool = False) -> PassageItem:
        limit = self.options.max_words
        return PassageItem(place, shortened(sample, limit) if limit else sample, gap)

    def _progress(self, items: Iterator[Any], name: str) -> Iterator[Any]:
        for count, item in enumerate(tqdm(items, desc=name, unit="record"), start=1):
            yield item
            if self.options.limit and count >= self.options.limit:
                return

    def _texts(self, number: int, source: NamedPath) -> Iterator[PassageItem]:
        on_error = self.skipped.handler(source.name)
        if own_form := source.name == "contract":
            read = read_contract_triples(source.path, self.options.datasets, on_error)
        else:
            read = read_triples(source.name, source.path, on_error)
        count = 0
        for count, sample in enumerate(self._progress(read, source.name), start=1):
            place, own_id = (number, 0, count), f"{source.name}/{sample.id}"
            if self.deal.owns(own_id, sample):
                self.kinds.place = place
                kept = self._kept_triples(sample)
                if kept:
                    yield self._item(place, TriplesSample(own_id, sample.text, kept))
        named = file_subsets(source.path, self.options.datasets) if own_form else ()
        self.sources.append(source_entry(source, count, named))

    def _kept_triples(self, sample: TriplesSample) -> list[Any]:
        if sample.text in self.excluded_texts:
            self.kinds["left out: supports a test question"] += 1
            return []
        triples = list(dict.fromkeys(sample.triples))
        if self.options.grounded:
            triples = [
                triple
                for triple in triples
                if all(mentions(sample.text, part) for part in (triple.subject, triple.object))
            ]
        if not triples:
            self.kinds["left out: states none of its triples"] += 1
        if len(triples) > MAX_TARGET_TRIPLES:
            self.kinds["too many triples"] += 1
            return []
        return triples

    def _passages(self, number: int, source: NamedPath) -> Iterator[PassageItem]:
        corpus = self._corpus() if source.name == "2wikimultihopqa" else None
        aligned = self._aligned_facts(source, corpus)
        if corpus:
            self._measure(aligned)
        taken = DiskGroups(self.work)
        total = own = left_out = 0
        for place, (line, facts) in enumerate(aligned.groups()):
            passage = from_line(line, PassageRecord)
            is_own = self.deal.owns(sample_id(source.name, passage), passage)
            if passage.title in self.excluded:
                left_out += is_own
                continue
            taken.add(passage.title)
            total += 1
            own += is_own
            if is_own:
                sample = aligned_sample(source.name, passage, _triples(facts))
                yield self._item((number, 0, place), sample, self._has_gap(sample))
        self.kinds.count("left out: supports a test question", left_out, number, 0, 0)
        self.kinds.count(f"{source.name}, annotated and completed", own, number, 1)
        if corpus:
            limit = self.options.weak_only_limit
            yield from self._weak_only(
                number, source.name, corpus, taken, total if limit is None else limit
            )
        for table in (aligned, taken):
            table.close()

    def _aligned_facts(self, source: NamedPath, corpus: PassageTable | None) -> DiskGroups:
        """Return passages by content, each with the facts that it states, over all questions."""
        aligned = DiskGroups(self.work)
        paths = [source.path, *(self.options.evidences if corpus else [])]
        for path in map(str, paths):
            on_error = self.skipped.handler(source.name)
            read = self._progress(read_questions(source.name, path, on_error), Path(path).name)
            count = 0
            for record in read:
                count += 1
                for passage, fact in stated_facts(record, corpus or {}):
                    key = passage_key(passage)
                    aligned.add(key, to_line(passage), json.dumps(list(vars(fact).values())))
            self.sources.append(source_entry(NamedPath(source.name, path), count))
        return aligned

    def _has_gap(self, sample: TriplesSample) -> bool:
        """Return whether the sample is one that --drop-gaps leaves out."""
        return self.options.drop_gaps and bool(unlabelled_relations(sample.text, sample.triples))

    def _weak_only(
        self, number: int, name: str, corpus: PassageTable, taken: DiskGroups, limit: int
    ) -> Iterator[PassageItem]:
        """Yield own passages without annotation, at most as many as the whole build takes."""
        order = ExternalSort(self.work)
        for place, passage in enumerate(corpus.passages()):
            if passage.title not in self.excluded and passage.title not in taken:
                fraction = weak_place(passage, self.options.seed)
                bits = fraction_bits(fraction)
                order.add(sort_key(fraction, place), json.dumps([bits, place, to_line(passage)]))
        made = 0
        for bits, place, line in map(json.loads, order):
            passage = from_line(line, PassageRecord)
            if made == limit:
                return
            if not self.deal.shard.owns(sample_id(f"{name}/weak", passage)):
                continue
            if sample := weak_sample(name, passage):
                made += 1
                yield self._item((number, 1, bits, place), sample, self._has_gap(sample))

    def _corpus(self) -> PassageTable | None:
        if self.options.corpus is None:
            return None
        passages = PassageTable(self.work)
        for passage in read_records(self.options.corpus, PassageRecord):
            passages.add(passage)
        if not passages:
            raise ValueError(f"{self.options.corpus}: the corpus is empty")
        return passages

    def _measure(self, aligned: DiskGroups) -> None:
        """Set the labelling functions' agreement with the annotation of own titles."""
        titles = DiskGroups(self.work)
        for line, facts in aligned.groups():
            passage = from_line(line, PassageRecord)
            if self.deal.shard.owns(sample_id("measure", passage)):
                titles.add(passage.title, line, replace=True)
                for fact in facts:
                    titles.add(passage.title, value=fact)
        self.agreement = measure_labels({}, {})
        for line, facts in titles.groups():
            passage = from_line(line, PassageRecord)
            evidences: dict[tuple[str, str], set[str]] = defaultdict(set)
            for triple in _triples(facts):
                evidences[passage.title, triple.predicate].add(triple.object)
            measured = measure_labels({passage.title: passage.text}, evidences)
            self.agreement = added_up([self.agreement, measured])
        titles.close()


def _triples(lines: list[str]) -> list[Triple]:
    return [Triple(*json.loads(line)) for line in lines]
