"""A reader's samples out of read passages, questions with their hops, and texts with triples."""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from common.commands import share
from common.shards import Shard
from data_gen.builds.helpers import InstructionBuild, InstructionReading
from data_gen.builds.questions import load_corpus
from data_gen.samples.altered_questions import AlteredQuestions
from data_gen.samples.material import Material, PassageFinder, SampleOptions
from data_gen.samples.reading import (
    answer_samples,
    asked_for,
    hop_samples,
    page_of,
    passage_samples,
    triple_samples,
)
from data_gen.sources.arguments import NamedPath, add_question_options, named_path, source_entry
from data_gen.sources.splits import hash_fraction
from data_gen.sources.texts import file_subsets, read_contract_triples
from data_gen.streaming.files import ExternalSort, from_line, sort_key, to_line
from models.formats.reading import ReadingRecord
from models.formats.records import InstructionSample, QuestionRecord, read_records

READING, TRIPLES = "reading", "triples"
_QUESTIONS = ("2wikimultihopqa", "musique", "world", "hotpotqa")
SOURCES = (READING, TRIPLES, *_QUESTIONS)


class ReadingBuildReading(InstructionReading):
    """Makes the samples of all sources."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        super().__init__(options, work)
        corpora = [p for path in options.corpus for p in load_corpus(path)]
        chosen = SampleOptions(
            nothing_rate=options.nothing_rate, negatives=options.negatives, seed=options.seed
        )
        by_title = {passage.title: passage for passage in reversed(corpora)}
        finder = PassageFinder(corpora)
        self.material = Material(by_title, finder, self.triples, chosen, self.counts)

    def items(self) -> Iterator[InstructionSample]:
        """Yield all samples, source by source."""
        makers = {READING: self._passages, TRIPLES: self._triples}
        for source in self.options.source:
            for sample in makers.get(source.name, self._hops)(source):
                self.counts[f"samples of {source.name}"] += 1
                yield sample

    def _passages(self, source: NamedPath) -> Iterator[InstructionSample]:
        """Yield samples of read passages, at most `per_data_set` of each set, by hash of the id."""
        order, taken = ExternalSort(self.work), Counter[str]()
        questions = AlteredQuestions(self.options.seed)
        on_error = self.reader.skipped.handler(source.name)
        read = tqdm(read_records(source.path, ReadingRecord, on_error), desc=source.path)
        for number, record in enumerate(read):
            place = hash_fraction(f"read/{record.id}", self.options.seed)
            order.add(sort_key(place, number), to_line(record))
            if self.options.altered_rate:
                questions.add(page_of(record), record.question)
        most = self.options.per_data_set
        for line in order:
            record = from_line(line, ReadingRecord)
            asked = QuestionRecord(record.id, record.question, record.answer)
            if leak := self.reader.excluded.reason(asked):
                self.counts[f"left out: {leak}"] += 1
            elif most is None or taken[record.source] < most:
                made = list(passage_samples(record, self._altered(record, questions)))
                self.counts["passages left out: no span answers"] += not made
                self.counts["questions altered"] += len(made) > 1
                taken[record.source] += len(made)
                yield from made
        self.counts.update({f"samples of {name}": count for name, count in taken.items()})
        self.reader.sources.append(source_entry(source, taken.total(), file_subsets(source.path)))

    def _altered(self, record: ReadingRecord, questions: AlteredQuestions) -> str | None:
        """Return the question with a part exchanged, for a share of those with an answer."""
        place = hash_fraction(f"altered/{record.id}", self.options.seed)
        if not record.answer or place >= self.options.altered_rate:
            return None
        return questions.altered(page_of(record), record)

    def _hops(self, source: NamedPath) -> Iterator[InstructionSample]:
        make = answer_samples if source.name == "hotpotqa" else hop_samples
        for record in self.reader.stream(source):
            yield from make(record, self.material)

    def _triples(self, source: NamedPath) -> Iterator[InstructionSample]:
        on_error = self.reader.skipped.handler(source.name)
        datasets = self.options.datasets
        read = [*read_contract_triples(source.path, datasets, on_error)]
        relations = sorted({asked_for(t.predicate) for s in read for t in s.triples} - {""})
        for sample in tqdm(read, desc=source.path):
            yield from triple_samples(
                sample, relations, self.options.nothing_rate, self.options.seed
            )
        subsets = file_subsets(source.path, datasets)
        self.reader.sources.append(source_entry(source, len(read), subsets))


class ReadingBuild(InstructionBuild):
    """A reader's samples, each prompt once."""

    name = "build_reading"
    title = "Reading with the question in hand"
    nothing = "the sources hold no passage that answers a question"
    shown = ("splits", "figures", "counts")
    of_prompts = ("per_data_set", "nothing_rate", "altered_rate", "negatives", "datasets")

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add the sources and the shares."""
        add = parser.add_argument
        add(
            "--source", type=named_path(SOURCES), action="append", required=True,
            metavar="NAME=PATH", help=f"a source, several times; NAME: {', '.join(SOURCES)}",
        )  # fmt: skip
        add(
            "--corpus", type=Path, action="append", default=[], metavar="PATH",
            help="passages, by title, for questions that come without text",
        )  # fmt: skip
        add(
            "--datasets", type=lambda text: text.split(","), metavar="A,B",
            help="of triples only records whose 'dataset' is named",
        )  # fmt: skip
        add(
            "--per-data-set", type=int, metavar="N",
            help="of reading at most N samples of each 'source' in it (all)",
        )  # fmt: skip
        add(
            "--nothing-rate", type=float, default=SampleOptions.nothing_rate,
            help="share of hops, first rounds and triples beside or in place of which a passage "
            "that does not tell is shown (%(default)s)",
        )  # fmt: skip
        add(
            "--altered-rate", type=share, default=0.0, metavar="SHARE",
            help="share of reading's answered questions beside which the same is asked with "
            "another name or number, which its passage does not tell (%(default)s)",
        )  # fmt: skip
        add(
            "--negatives", type=int, default=SampleOptions.negatives, metavar="N",
            help="passages of --corpus, and of a hotpotqa question's own, that each question finds "
            "and that do not tell, beside those of --nothing-rate (%(default)s)",
        )  # fmt: skip
        add_question_options(parser, "questions of each source")

    def reading(self, shard: Shard) -> ReadingBuildReading:
        """Return the reading of all sources."""
        return ReadingBuildReading(self.options, self.work)

    def split_key(self, sample: InstructionSample) -> str:
        """Return the page or the question: its samples share a split."""
        return sample.source_id.split("/")[0]
