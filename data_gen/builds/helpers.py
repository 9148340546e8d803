"""A helper's samples out of all sources of one build."""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from data_gen.builds.questions import QuestionReader, load_corpus, world_triples
from data_gen.facts.held_out import wording
from data_gen.facts.passage_search import PassageFinder
from data_gen.facts.passage_triples import PassageTriples
from data_gen.facts.solving_steps import solving_steps
from data_gen.samples.helpers import (
    CHOICES,
    choice_samples,
    choosing_questions,
    decompose_samples,
    judge_gap_samples,
    resolve_samples,
    subquery_samples,
    topic_samples,
)
from data_gen.samples.material import Material, SampleMaker, SampleOptions
from data_gen.sources.arguments import NamedPath, source_entry
from data_gen.sources.splits import hash_fraction
from data_gen.streaming.counts import PlacedCounts
from data_gen.streaming.files import Spool
from data_gen.streaming.groups import DiskGroups
from models.formats.records import HelperTask, InstructionSample, PassageRecord, QuestionRecord

QUESTION_TASKS: dict[HelperTask, SampleMaker] = {
    "subquery": subquery_samples,
    "decompose": decompose_samples,
    "resolve": resolve_samples,
    "judge_gap": judge_gap_samples,
}


class HelpersBuild:
    """Makes the samples of one task and counts what happened on the way.

    The questions pass through files in `work`; the corpora are held in memory.
    """

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.options, self.work = options, work
        self.counts = PlacedCounts()
        self.reader = QuestionReader(options, self.counts, work)
        self.triples = PassageTriples(folder=work)
        self._wordings = DiskGroups(work)
        self.corpora = self._corpora()
        self.finder = PassageFinder([p for corpus in self.corpora.values() for p in corpus])

    def samples(self) -> Iterator[InstructionSample]:
        """All samples, source by source. Raises ValueError for a task that a source has not."""
        alone = {"topic": self._topics, "choose_topics": self._choices}.get(self.options.task)
        if alone:
            for source in self.options.source:
                yield from alone(source)
            return
        by_name: dict[str, list[NamedPath]] = defaultdict(list)
        for source in self.options.source:
            if source.name == CHOICES:
                raise ValueError(
                    f"--source {CHOICES}={source.path}: it is for --task choose_topics alone. "
                    f"Give questions for --task {self.options.task}"
                )
            by_name[source.name].append(source)
        for name, sources in by_name.items():
            yield from self._named(name, sources)

    def _named(self, name: str, sources: list[NamedPath]) -> Iterator[InstructionSample]:
        records = Spool(self.work / f"questions.{name}", QuestionRecord)
        for source in sources:
            for record in filter(self._asks_anew, self.reader.stream(source)):
                records.add(record)
        material = self._material(name)
        if self.options.task in ("resolve", "judge_gap"):
            for record in records:
                self.triples.annotate(solving_steps(record, material.by_title))
        make = QUESTION_TASKS[self.options.task]
        for record in tqdm(records, desc=name, unit="question"):
            made = list(make(record, material))
            self.counts[f"questions of {name}"] += bool(made)
            yield from made

    def _asks_anew(self, record: QuestionRecord) -> bool:
        """Whether no source had the question: under two ids it could come into two splits."""
        asked = wording(record.question)
        if asked in self._wordings:
            self.counts["left out: the same question again"] += 1
            return False
        self._wordings.add(asked)
        return True

    def _material(self, name: str) -> Material:
        options = self.options
        by_title: dict[str, PassageRecord] = {}
        for passage in self.corpora.get(name, []):
            by_title.setdefault(passage.title, passage)
        chosen = SampleOptions(
            passages=options.passages,
            nothing_rate=options.nothing_rate,
            propositions_rate=options.propositions_rate,
            distractors=options.distractors,
            seed=options.seed,
        )
        return Material(by_title, self.finder, self.triples, chosen, self.counts)

    def _corpora(self) -> dict[str, list[PassageRecord]]:
        """Passages by source; a world brings its own, with their triples."""
        corpora: dict[str, list[PassageRecord]] = defaultdict(list)
        for corpus in self.options.corpus:
            corpora[corpus.name] += load_corpus(corpus.path)
        for source in self.options.source:
            folder = Path(source.path)
            if source.name == "world" and folder.is_dir():
                passages = load_corpus(folder / "corpus.jsonl")
                world_triples(folder, passages, self.triples)
                corpora["world"] += passages
        return corpora

    def _topics(self, source: NamedPath) -> Iterator[InstructionSample]:
        if source.name != "world" or not Path(source.path).is_dir():
            raise ValueError(
                f"--source {source.name}={source.path}: only a world says what its entities are. "
                "Give the folder that build_world.py wrote"
            )
        samples = list(topic_samples(Path(source.path)))
        entities = sorted({sample.source_id for sample in samples}, key=self._drawn)
        kept = set(entities[: self.options.limit])
        self.reader.sources.append(source_entry(source, len(kept)))
        self.counts["entities"] += len(kept)
        yield from (sample for sample in samples if sample.source_id in kept)

    def _choices(self, source: NamedPath) -> Iterator[InstructionSample]:
        if source.name != CHOICES:
            raise ValueError(
                f"--source {source.name}={source.path}: what topics are chosen from is a "
                f"hierarchy's. Give {CHOICES}=FILE, which inference/offer_topics.py wrote"
            )
        kept = DiskGroups(self.work)
        questions = choosing_questions(source.path, self.reader.skipped.handler(source.name))
        for record in filter(self._asks_anew, self.reader.new(source, questions)):
            kept.add(record.id)
        self.counts[f"questions of {source.name}"] += len(kept)
        yield from choice_samples(source.path, kept)

    def _drawn(self, source_id: str) -> float:
        return hash_fraction(f"cap/{source_id}", self.options.seed)
