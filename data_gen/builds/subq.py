"""Planner and answerer samples of all sources of one build (RAS Algorithm 1)."""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tqdm import tqdm

from common.shards import WHOLE, Shard
from data_gen.builds.build import Build
from data_gen.builds.cards import RasFigures
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
from data_gen.builds.shards import Deal, Reading
from data_gen.facts.aligned_passages import LaterAnnotation
from data_gen.facts.held_out import wording
from data_gen.facts.passage_triples import PassageTriples, count_ways
from data_gen.facts.readings import AskedWriter, Readings
from data_gen.facts.stand_ins import is_stand_in, told_by
from data_gen.samples.labels import CheckedSamples, SampleCheck
from data_gen.samples.sampling import PlanKinds, PlanSampling, SampleChooser
from data_gen.samples.trajectories import (
    OracleOptions,
    instructed_question,
    no_retrieval_samples,
    trajectory_samples,
)
from data_gen.sources.arguments import NamedPath, add_question_options, named_path, share
from data_gen.streaming.counts import CountTokens, Place, PlacedCounts
from data_gen.streaming.files import FirstFew, Spool
from models.formats.records import PassageRecord, QuestionRecord, RasSample
from models.formats.triples import Triple

_SOURCES = ("hotpotqa", "2wikimultihopqa", "musique", "world", "reading")


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
            options.top_k, options.max_triples, options.gold_rate, options.seed
        )

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
        """Return what each stage annotates, so that other shards' look-ups before it can be
        repeated.
        """
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

        prepared = prepare_questions(
            stage.records, corpus, self.triples, self.options.top_k, self.work, wanted
        )
        triples_of = self._read if self.readings else self.triples.of
        for question in tqdm(prepared, desc=stage.name, unit="question"):
            if self.asked:
                self._ask(question, self.asked)
            own = trajectory_samples(
                question.record, question.steps, question.retrieved, triples_of, self.oracle
            )
            if self.deal.shard.owns(question.record.id):
                self.counts.place = (stage.number, 1, question.number)
                self._count(question.record, own, len(question.steps))
                yield QuestionSamples((stage.number, question.number), question.record.id, own)

    def _ask(self, question: PreparedQuestion, asked: AskedWriter) -> None:
        """List what the question's subqueries find, and may be given where they miss it."""
        whole = question.record.question
        for query, passages in question.retrieved.items():
            # A step in the question's own words is never asked in its own.
            if query == whole or wording(query) != wording(whole):
                found = [*passages, *_gold(query, question)]
                asked.add(query, [p for p in found if not is_stand_in(p)])

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

    def _count(self, record: QuestionRecord, samples: list[RasSample], steps: int) -> None:
        self.counts["questions"] += 1
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
            if self._is_own(record):
                self.counts.count("questions", 1, stage, 1, number)
                samples = no_retrieval_samples(record, instructed_question(record))
                yield QuestionSamples((stage, number), record.id, samples)


def _gold(query: str, question: PreparedQuestion) -> list[PassageRecord]:
    """Return the passages that the oracle may put in where retrieval missed them."""
    asks = [s for s in question.steps if wording(s.subquery) == wording(query)]
    return [step.passage for step in asks if step.passage is not None]


class _Examples(FirstFew[RasSample]):
    """Five samples: one of each label kind, the rest answers."""

    def __init__(self) -> None:
        super().__init__(5)
        self._kinds: set[str] = set()

    def add(self, sample: RasSample) -> None:
        """See a sample."""
        label = sample.label.split(" ", 1)[0] if sample.task == "plan" else "answer"
        kind = f"{label}/{bool(sample.history)}"
        if kind not in self._kinds:
            self._kinds.add(kind)
            super().add(sample)


class SubqBuild(Build[QuestionSamples, RasSample]):
    """Planner and answerer samples, chosen, each prompt once."""

    name = "build_subq"
    title = "Planner and answerer samples"
    nothing = "the sources hold no questions"
    item_type = QuestionSamples
    shown = ("splits", "planning", "answering", "counts")
    columns = ("kind", "what", "number")

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        super().__init__(options, work)
        self._kinds = PlanKinds()

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add sources, retrieval and sampling."""
        add = parser.add_argument
        add(
            "--source", type=named_path(_SOURCES), action="append", default=[], metavar="NAME=PATH",
            help=f"questions, several times; NAME: {', '.join(_SOURCES)}",
        )  # fmt: skip
        add(
            "--corpus", type=named_path(_SOURCES), action="append", default=[], metavar="NAME=PATH",
            help="passages to retrieve from (each record's own context; a world's own corpus)",
        )  # fmt: skip
        add(
            "--triples", type=Path, metavar="FILE",
            help="triples that a text-to-triples model read (annotation and weak labels)",
        )  # fmt: skip
        add(
            "--asked", type=Path, metavar="FILE",
            help="also write which passages each subquery finds, for inference/extract.py --asked",
        )  # fmt: skip
        add(
            "--readings", type=Path, metavar="FILE",
            help="what inference/extract.py --asked read in them: the evidence of every step",
        )  # fmt: skip
        add(
            "--no-retrieval", type=Path, action="append", default=[], metavar="PATH",
            help="questions that need no retrieval; with choices: ARC's task instruction is put "
            "first",
        )  # fmt: skip
        add("--top-k", type=int, default=3, help="passages a query (3)")
        add("--max-triples", type=int, default=8, help="triples a step (8)")
        add(
            "--gold-rate", type=share, default=0.9,
            help="how often a step's own passage is put in where retrieval missed it (0.9)",
        )  # fmt: skip
        add(
            "--plan-samples-per-question", type=float, metavar="X",
            help="states with a history kept a question, on average (all)",
        )  # fmt: skip
        add(
            "--first-plan-fraction", type=share, default=1.0,
            help="share of questions whose empty-history state is kept (1)",
        )  # fmt: skip
        add(
            "--balance-plans", action="store_true",
            help="keep as many states that ask on as that have enough, for each number of steps",
        )  # fmt: skip
        add(
            "--answer-fraction", type=share, default=1.0,
            help="share of questions whose answer is kept (1)",
        )  # fmt: skip
        add(
            "--skip-contradictions", action="store_true",
            help="drop and count samples whose prompt came before with another label",
        )  # fmt: skip
        add_question_options(parser, "questions of each file")

    @classmethod
    def check_options(cls, parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
        """End with an error where there is no source or a number is too low."""
        if not options.source and not options.no_retrieval:
            parser.error("give at least one --source or --no-retrieval")
        if options.readings and options.triples:
            parser.error("--readings and --triples both say what a passage holds: give one")
        if options.shard and options.asked:
            parser.error("--asked lists what all questions find: leave --shard out")
        if options.top_k < 1 or options.max_triples < 1:
            parser.error("--top-k and --max-triples must be at least 1")

    def reading(self, shard: Shard) -> SubqReading:
        """Return the reading of all sources."""
        return SubqReading(self.options, self.work, shard)

    def samples(self, items: Iterable[QuestionSamples]) -> CheckedSamples[RasSample]:
        """Return the chosen samples with distinct prompts.

        Raises ContradictoryLabelsError unless such samples are to be skipped.
        """
        given = self.options
        sampling = PlanSampling(
            given.plan_samples_per_question,
            given.first_plan_fraction,
            given.seed,
            given.balance_plans,
            given.answer_fraction,
        )
        chooser, check = SampleChooser(sampling, self.work), SampleCheck(self.work, RasSample)
        for question in items:
            for sample in question.samples:
                chooser.add(sample)
                check.add(sample)
        self._checked = check.checked(given.skip_contradictions, chooser.chosen())
        return self._checked

    def figures(self, count_tokens: CountTokens) -> RasFigures:
        """Return the columns of RAS Table 4, to be counted."""
        return RasFigures(count_tokens)

    def split_key(self, sample: RasSample) -> str:
        """Return the question: its samples share a split."""
        return sample.question_id

    def examples(self, count: int) -> FirstFew[RasSample]:
        """Return what picks the first sample of each kind."""
        return _Examples()

    def see(self, sample: RasSample) -> None:
        """Count the plans by their number of steps."""
        self._kinds.add(sample)

    def card(self, figures: dict[str, Any], read: Reading[QuestionSamples]) -> dict[str, Any]:
        """Return the figures of both tasks, counts, ways of the triples, options and sources."""
        known, checked = read.found(), self._checked
        names = (
            "seed", "fractions", "top_k", "max_triples", "gold_rate", "plan_samples_per_question",
            "first_plan_fraction", "balance_plans", "answer_fraction",
        )  # fmt: skip
        given = self.options.readings or self.options.triples
        extracted = given.name if given else None
        return {
            "planning": {
                **figures["plan"],
                "kind_foretold_by_steps_alone": round(self._kinds.label_by_steps_alone(), 3),
            },
            "answering": figures["answer"],
            "counts": {
                **known.counts.ordered(),
                **self._kinds.first_plan_counts(),
                **checked.left_out(),
                **({"samples not chosen": checked.not_chosen} if checked.not_chosen else {}),
            },
            "triples_of_passages": count_ways(read.look_ups()),
            **known.skipped_part(),
            "options": {**self.chosen(*names), "extracted_triples": extracted},
            "sources": known.sources,
        }

    def rows(self, card: Mapping[str, Any]) -> list[list[Any]]:
        """Return splits, labels and counts."""
        kinds = (
            ("split", card["splits"]),
            ("label", card["planning"].get("labels", {})),
            ("count", card["counts"]),
        )
        return [[kind, name, count] for kind, part in kinds for name, count in part.items()]
