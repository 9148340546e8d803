"""A retriever's samples out of questions with their hops and of read passages."""

import argparse
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.shards import Shard
from data_gen.builds.build import Build
from data_gen.builds.questions import WholeReading, load_corpus
from data_gen.builds.shards import Reading
from data_gen.facts.passage_triples import PassageTriples
from data_gen.facts.solving_steps import passage_origin
from data_gen.samples.material import Material, PassageFinder, PassageSearch, SampleOptions
from data_gen.samples.retrieval import retrieval_samples
from data_gen.sources.arguments import NamedPath, add_question_options, named_path, source_entry
from data_gen.sources.texts import file_subsets
from data_gen.streaming.counts import CountTokens, TokenSpread, spread_of
from data_gen.streaming.files import Spool
from data_gen.streaming.groups import DiskGroups
from models.formats.passages import context_passages
from models.formats.reading import ReadingRecord
from models.formats.records import PassageRecord, QuestionRecord, read_records
from models.formats.retrieval import RetrievalSample

READING = "reading"
SOURCES = ("2wikimultihopqa", "musique", "hotpotqa", "world", READING)
NEGATIVES = 4


def as_question(record: ReadingRecord) -> QuestionRecord:
    """Return a read passage as a question with one paragraph, which supports its answer.

    Questions on one page share the first part of their ids, and so a split.
    """
    page = hashlib.sha256((record.title or record.passage).encode()).hexdigest()[:16]
    return QuestionRecord(
        id=f"{page}/{record.id.replace('/', '_')}",
        question=record.question,
        # Of other forms than a span no passage can be said to hold them.
        answer="yes" if record.answer_form else record.answer,
        answer_aliases=[] if record.answer_form else record.answer_aliases,
        context=[(record.title, [record.passage])],
        supporting_facts=[(record.title, 0)],
    )


class RetrievalReading(WholeReading[RetrievalSample]):
    """Makes the samples of all sources and counts what happened on the way.

    The questions pass through files in `work`; all their passages are held in memory, for the
    negatives of each question are searched for among those of all.
    """

    def items(self) -> Iterator[RetrievalSample]:
        """Yield all samples, source by source."""
        corpora = [p for path in self.options.corpus for p in load_corpus(path)]
        pool = {passage_origin(passage): passage for passage in corpora}
        read = [self._read(number, pool) for number in range(len(self.options.source))]
        if not pool:
            return
        search = PassageSearch(list(pool.values()))
        by_title = {passage.title: passage for passage in reversed(corpora)}
        triples = PassageTriples(folder=self.work)
        chosen = SampleOptions(seed=self.options.seed)
        material = Material(by_title, PassageFinder(corpora), triples, chosen, self.counts)
        for source, records in zip(self.options.source, read, strict=True):
            for record in tqdm(records, desc=source.name, unit="question"):
                own = list(
                    retrieval_samples(record, material, search, self.options.negatives, source.name)
                )
                self.counts[f"samples of {source.name}"] += len(own)
                yield from own

    def _read(self, number: int, pool: dict[str, PassageRecord]) -> Spool[QuestionRecord]:
        """Return a source's questions; their passages are added to the pool."""
        source = self.options.source[number]
        records = Spool(self.work / f"questions.{number}", QuestionRecord)
        stream = self._passages(source) if source.name == READING else self.reader.stream(source)
        for record in stream:
            records.add(record)
            pool.update((passage_origin(passage), passage) for passage in context_passages(record))
        return records

    def _passages(self, source: NamedPath) -> Iterator[QuestionRecord]:
        """Yield read passages that answer their question, within the source's limit."""
        on_error = self.reader.skipped.handler(source.name)
        read = tqdm(read_records(source.path, ReadingRecord, on_error), desc=source.path)
        answered = (as_question(record) for record in read if record.answer)
        count = 0
        for record in self.reader.new(source, answered):
            count += 1
            yield record
        # With the data sets in the file, each under its licence.
        self.reader.sources[-1] = source_entry(source, count, file_subsets(source.path))


class RetrievalFigures:
    """Sizes of a retriever's samples."""

    def __init__(self, count_tokens: CountTokens) -> None:
        self._query, self._positive = TokenSpread(count_tokens), TokenSpread(count_tokens)
        self._negatives: Counter[int] = Counter()

    def add(self, sample: RetrievalSample) -> None:
        """Count one sample."""
        self._query.add(sample.query)
        self._positive.add(sample.positive.written)
        self._negatives[len(sample.negatives)] += 1

    def figures(self) -> dict[str, Any]:
        """Return the sizes."""
        return {
            "samples": self._negatives.total(),
            "query_tokens": self._query.figures(),
            "passage_tokens": self._positive.figures(),
            "negatives": spread_of(self._negatives),
        }


class RetrievalBuild(Build[RetrievalSample, RetrievalSample]):
    """A retriever's samples, each pair of query and passage once."""

    name = "build_retrieval"
    title = "Retrieval of supporting passages"
    nothing = "the sources hold no question with a supporting passage and others like it"
    item_type = RetrievalSample
    shown = ("splits", "figures", "counts")
    columns = ("what", "count")
    shards = False

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add the sources, the passages and the negatives."""
        add = parser.add_argument
        add(
            "--source", type=named_path(SOURCES), action="append", required=True,
            metavar="NAME=PATH", help=f"a source, several times; NAME: {', '.join(SOURCES)}",
        )  # fmt: skip
        add(
            "--corpus", type=Path, action="append", default=[], metavar="PATH",
            help="further passages to take negatives from; by title, the passages of questions "
            "that come without text",
        )  # fmt: skip
        add(
            "--negatives", type=int, default=NEGATIVES, metavar="N",
            help="at most N passages a sample that BM25 finds and that do not answer (%(default)s)",
        )  # fmt: skip
        add_question_options(parser, "questions of each source")

    @classmethod
    def check_options(cls, parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
        """End with an error where there would be no negatives."""
        if options.negatives < 1:
            parser.error("--negatives must be at least 1")

    def reading(self, shard: Shard) -> RetrievalReading:
        """Return the reading of all sources."""
        return RetrievalReading(self.options, self.work)

    def samples(self, items: Iterable[RetrievalSample]) -> Spool[RetrievalSample]:
        """Return the samples whose query and passage did not come before together."""
        kept, seen = Spool(self.work / "samples", RetrievalSample), DiskGroups(self.work)
        self._repeats = 0
        for sample in items:
            pair = f"{sample.query.strip()}\n{sample.positive.written}"
            if pair in seen:
                self._repeats += 1
            else:
                seen.add(pair)
                kept.add(sample)
        return kept

    def figures(self, count_tokens: CountTokens) -> RetrievalFigures:
        """Return the sizes, to be counted."""
        return RetrievalFigures(count_tokens)

    def split_key(self, sample: RetrievalSample) -> str:
        """Return the question or the page: its samples share a split."""
        return sample.source_id.split("/")[0]

    def card(self, figures: dict[str, Any], read: Reading[RetrievalSample]) -> dict[str, Any]:
        """Return figures, counts, options and sources."""
        known = read.found()
        return {
            "figures": figures,
            "counts": {**known.counts, "query and passage that came again": self._repeats},
            **known.skipped_part(),
            "options": self.chosen("seed", "fractions", "negatives"),
            "sources": known.sources,
            "seed": self.options.seed,
        }

    def rows(self, card: Mapping[str, Any]) -> list[list[Any]]:
        """Return splits and counts."""
        return [[name, count] for name, count in {**card["splits"], **card["counts"]}.items()]
