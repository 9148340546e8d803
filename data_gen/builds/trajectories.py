"""The planner and answerer samples of all sources, question by question."""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tqdm import tqdm

from common.shards import WHOLE, Shard
from data_gen.builds.found import Found
from data_gen.builds.questions import (
    PreparedQuestion,
    QuestionReader,
    TakesAnnotation,
    load_corpus,
    prepare_questions,
    take_annotation,
    world_triples,
)
from data_gen.builds.shards import Deal
from data_gen.facts.aligned_passages import LaterAnnotation
from data_gen.facts.held_out import wording
from data_gen.facts.passage_triples import PassageTriples
from data_gen.facts.stand_ins import is_stand_in, told_by
from data_gen.samples.plans_ahead import annotated_ahead
from data_gen.samples.trajectories import (
    OracleOptions,
    instructed_question,
    no_retrieval_samples,
    trajectory_samples,
)
from data_gen.sources.arguments import NamedPath
from data_gen.sources.attempts import read_right_ids
from data_gen.streaming.counts import Place, PlacedCounts
from data_gen.streaming.files import Spool
from data_gen.streaming.groups import DiskGroups
from models.formats.passages import AskedPassage
from models.formats.records import (
    PassageRecord,
    QuestionRecord,
    RasSample,
    read_records,
    write_records,
)
from models.formats.triples import Triple


class AskedWriter:
    """Writes, each once, what a reader is to read; the file is there when all is written."""

    def __init__(self, path: Path, folder: Path) -> None:
        """folder: for what is to be written, until it is whole."""
        self._path = path
        self._asked = Spool(folder / "asked", AskedPassage)
        self._keys = DiskGroups(folder)

    def add(self, subquery: str, passages: Iterable[PassageRecord], whole: bool) -> None:
        """Take in the passages that a subquery found; whole: it is the question itself."""
        for passage in passages:
            asked = AskedPassage(subquery, passage, whole=whole)
            if asked.key not in self._keys:
                self._keys.add(asked.key)
                self._asked.add(asked)

    def finish(self) -> None:
        """Write the file."""
        write_records(self._path, self._asked)


class Readings:
    """Looks up what a reader found in a passage for a subquery."""

    def __init__(self, path: Path, folder: Path) -> None:
        """path: JSON Lines of `AskedPassage`. folder: for the table. Raises RecordError."""
        self._path = path
        self._found = DiskGroups(folder)
        for asked in read_records(path, AskedPassage):
            self._found.add(asked.key, json.dumps(asked.to_json()["triples"]), replace=True)

    def of(self, passage: PassageRecord, subquery: str) -> Sequence[Triple]:
        """Return the triples. Raises ValueError for a passage that was not read for it."""
        text = self._found.payload(AskedPassage(subquery, passage).key)
        if text is None:
            raise ValueError(
                f"{self._path}: the passage {passage.title!r} was not read for {subquery!r}. "
                "Write what is asked with --asked and the same options, and read all of it with "
                "inference/extract.py --asked"
            )
        return [Triple(*parts) for parts in json.loads(text)]


@dataclass(frozen=True)
class QuestionSamples:
    """The samples of one question, and where in the build it stands."""

    place: Place
    id: str
    samples: list[RasSample]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that a shard keeps."""
        return {
            "place": list(self.place),
            "id": self.id,
            "samples": [sample.to_json() for sample in self.samples],
        }

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read the object of `to_json`."""
        samples = [RasSample.from_json(sample, where) for sample in record["samples"]]
        return cls(tuple(record["place"]), record["id"], samples)


@dataclass(frozen=True)
class _Stage:
    """The sources of one name, whose questions share a corpus; one after the other is built."""

    number: int
    name: str
    sources: list[NamedPath]
    records: Spool[QuestionRecord]


class SubqReading:
    """Makes the samples of all sources, question by question, and counts what happened on the way.

    What grows with the sources lies in `work`. Of a `shard`, every question is read and its
    annotation taken in, but only the shard's own ones are counted and given out. A passage keeps
    the triples of its first look-up, be it another shard's: where a later source annotates passages
    that a question may have looked up before, that question is gone through in every shard.
    """

    def __init__(self, options: argparse.Namespace, work: Path, shard: Shard = WHOLE) -> None:
        self.options, self.work = options, work
        self.deal = Deal(shard)
        self.counts = PlacedCounts()
        self.reader = QuestionReader(options, self.counts, work, shard.owns)
        self.triples = PassageTriples(options.triples, work)
        self.readings = Readings(options.readings, work) if options.readings else None
        self.asked = AskedWriter(options.asked, work) if options.asked else None
        self.oracle = OracleOptions(
            top_k=options.top_k,
            max_triples=options.max_triples,
            gold_rate=options.gold_rate,
            seed=options.seed,
            supported_answers=options.supported_answers,
            planned_first=options.planned_first,
            forms=tuple(options.forms),
        )
        self.right = {id_ for path in options.attempts for id_ in read_right_ids(path)}

    def items(self) -> Iterator[QuestionSamples]:
        """Yield every state's sample of every own question, before any sampling."""
        by_name: dict[str, list[NamedPath]] = defaultdict(list)
        for source in self.options.source:
            by_name[source.name].append(source)
        stages = [
            _Stage(number, name, sources, self._read_all(number, sources))
            for number, (name, sources) in enumerate(by_name.items())
        ]
        later = self._later_annotation(stages) if self.deal.shard.count > 1 else None
        for stage in stages:
            yield from self._named(stage, later)
        for number, path in enumerate(self.options.no_retrieval, start=len(stages)):
            yield from self._without_retrieval(number, path)
        if self.asked:
            self.asked.finish()

    def _later_annotation(self, stages: list[_Stage]) -> LaterAnnotation:
        """Return what each stage annotates, so that other shards' look-ups can be repeated."""
        later = LaterAnnotation(self.work)
        for stage in stages:
            later.stage = stage.number
            corpus = self._corpus(stage, later)
            take_annotation(stage.records, corpus, later, self.work)
        return later

    def _named(self, stage: _Stage, later: LaterAnnotation | None) -> Iterator[QuestionSamples]:
        self.triples.stage = stage.number
        corpus = self._corpus(stage, self.triples)
        touches = later.touches(stage.number, corpus) if later else None

        def wanted(record: QuestionRecord) -> bool:
            return self._is_own(record) or bool(touches and touches(record))

        top_k = 0 if self.options.plan_ahead else self.options.top_k
        prepared = prepare_questions(stage.records, corpus, self.triples, top_k, self.work, wanted)
        triples_of = self._read if self.readings else self.triples.of
        for question in tqdm(prepared, desc=stage.name, unit="question"):
            if self.asked:
                self._ask(question, self.asked)
            steps = [] if question.record.id in self.right else question.steps
            own = (
                annotated_ahead(question.record, steps)
                if self.options.plan_ahead
                else trajectory_samples(
                    question.record, steps, question.retrieved, triples_of, self.oracle
                )
            )
            if self.deal.shard.owns(question.record.id):
                self.counts.place = (stage.number, 1, question.number)
                self._count(own, len(steps))
                yield QuestionSamples((stage.number, question.number), question.record.id, own)

    def _ask(self, question: PreparedQuestion, asked: AskedWriter) -> None:
        """List what the question's subqueries find, and may be given where they miss it."""
        whole = question.record.question
        for query, passages in question.retrieved.items():
            # A step in the question's own words is never asked in its own.
            if query == whole or wording(query) != wording(whole):
                asks = [s for s in question.steps if wording(s.subquery) == wording(query)]
                # The oracle may put these in where retrieval missed them.
                own = [step.passage for step in asks if step.passage is not None]
                shown = [p for p in (*passages, *own) if not is_stand_in(p)]
                asked.add(query, shown, whole=query == whole)

    def _read(self, passage: PassageRecord, subquery: str) -> Sequence[Triple]:
        """Return what a reader found, or of a passage made of annotation what one would find."""
        if is_stand_in(passage):
            return told_by(passage, self.triples.of(passage), subquery, self.options.seed)
        assert self.readings
        return self.readings.of(passage, subquery)

    def found(self) -> Found:
        """Return the counts so far."""
        return Found.of(self.counts, self.reader.skipped, self.reader.sources)

    def look_ups(self) -> Iterator[str]:
        """Return which way answered each passage."""
        return self.triples.look_ups()

    def _is_own(self, record: QuestionRecord) -> bool:
        return self.deal.owns(record.id, record)

    def _count(self, samples: list[RasSample], steps: int) -> None:
        self.counts["questions"] += 1
        if self.options.plan_ahead:
            return
        rounds = len(samples[-1].history)
        self.counts["steps asked for"] += max(rounds - 1, 0)
        self.counts["steps not asked for (already known, or their bridge was missed)"] += max(
            0, steps - max(rounds - 1, 0)
        )

    def _read_all(self, stage: int, sources: list[NamedPath]) -> Spool[QuestionRecord]:
        records = Spool(self.work / f"questions.{stage}", QuestionRecord)
        for source in sources:
            for record in self.reader.stream(source, stage):
                records.add(record)
        return records

    def _corpus(self, stage: _Stage, triples: TakesAnnotation) -> list[PassageRecord] | None:
        name = stage.name
        paths = [Path(corpus.path) for corpus in self.options.corpus if corpus.name == name]
        given = [Path(source.path) for source in stage.sources if name == "world"]
        folders = [folder for folder in given if folder.is_dir()]
        paths += [folder / "corpus.jsonl" for folder in folders if not paths]
        corpus = [passage for path in paths for passage in load_corpus(path)]
        for folder in folders:
            world_triples(folder, corpus, triples, self.work)
        return corpus or None

    def _without_retrieval(self, stage: int, path: Path) -> Iterator[QuestionSamples]:
        records = self._read_all(stage, [NamedPath("contract", str(path))])
        for number, record in enumerate(records):
            if self.options.attempts and record.id not in self.right:
                self.counts.count("left out: not answered without retrieval", 1, stage, 1, number)
            elif self._is_own(record):
                self.counts.count("questions", 1, stage, 1, number)
                samples = no_retrieval_samples(record, instructed_question(record))
                yield QuestionSamples((stage, number), record.id, samples)
