"""Planner and answerer samples of all sources of one build (RAS Algorithm 1)."""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tqdm import tqdm

from common.shards import WHOLE, Shard
from data_gen.builds.cards import RasFigures, token_counter, write_card
from data_gen.builds.found import Found
from data_gen.builds.questions import (
    QuestionReader,
    TakesAnnotation,
    load_corpus,
    prepare_questions,
    take_annotation,
    world_triples,
)
from data_gen.builds.shards import Deal
from data_gen.builds.write_splits import write_splits
from data_gen.facts.aligned_passages import LaterAnnotation
from data_gen.facts.passage_triples import PassageTriples, count_ways
from data_gen.samples.labels import CheckedSamples, SampleCheck
from data_gen.samples.sampling import PlanKinds, PlanSampling, SampleChooser
from data_gen.samples.trajectories import (
    OracleOptions,
    instructed_question,
    no_retrieval_samples,
    trajectory_samples,
)
from data_gen.sources.arguments import NamedPath
from data_gen.streaming.counts import Place, PlacedCounts
from data_gen.streaming.files import Spool, observed
from models.formats.records import PassageRecord, QuestionRecord, RasSample


@dataclass(frozen=True)
class QuestionSamples:
    """The samples of one question, and where in the build it stands."""

    place: Place
    id: str
    samples: list[RasSample]

    def to_json(self) -> dict[str, Any]:
        """The JSON object that a shard keeps."""
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


class SubqBuild:
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
        self.oracle = OracleOptions(
            options.top_k, options.max_triples, options.gold_rate, options.seed
        )

    def questions(self) -> Iterator[QuestionSamples]:
        """Every state's sample of every own question, before any sampling."""
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

    def _later_annotation(self, stages: list[_Stage]) -> LaterAnnotation:
        """What each stage annotates, so that other shards' look-ups before it can be repeated."""
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
        for question in tqdm(prepared, desc=stage.name, unit="question"):
            own = trajectory_samples(
                question.record, question.steps, question.retrieved, self.triples.of, self.oracle
            )
            if self.deal.shard.owns(question.record.id):
                self.counts.place = (stage.number, 1, question.number)
                self._count(question.record, own, len(question.steps))
                yield QuestionSamples((stage.number, question.number), question.record.id, own)

    def found(self) -> Found:
        """What was counted so far."""
        return Found.of(self.counts, self.reader.skipped, self.reader.sources)

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


class _Examples:
    """Five samples: one of each label kind, the rest answers."""

    def __init__(self) -> None:
        self._chosen: dict[str, RasSample] = {}

    def add(self, sample: RasSample) -> None:
        """See a sample."""
        kind = sample.label.split(" ", 1)[0] if sample.task == "plan" else "answer"
        self._chosen.setdefault(f"{kind}/{bool(sample.history)}", sample)

    def samples(self) -> list[RasSample]:
        """The first five."""
        return list(self._chosen.values())[:5]


def finish_subq(
    questions: Iterable[QuestionSamples],
    found: Callable[[], Found],
    look_ups: Callable[[], Iterable[str]],
    options: argparse.Namespace,
    folder: Path,
    work: Path,
) -> dict[str, Any]:
    """Write the splits and the card to `folder`; returns the card.

    questions: in the order of the build. found, look_ups: asked when these have been read; the
    latter are sorted lines of `PassageTriples.look_ups`. The samples pass through a file in `work`,
    so that memory does not grow with them but for a few bytes each.
    Raises ContradictoryLabelsError unless such samples are to be skipped, and SystemExit when there
    are no samples.
    """
    checked = _checked(questions, options, work)
    if not len(checked):
        raise SystemExit("no samples: the sources hold no questions")
    count_tokens, unit = token_counter(options.tokenizer)
    figures, kinds, examples = RasFigures(count_tokens), PlanKinds(), _Examples()
    passing = tqdm(checked, desc="writing", unit="sample")
    seen = observed(passing, figures.add, kinds.add, examples.add)
    splits = write_splits(folder, seen, lambda s: s.question_id, options.seed, options.fractions)
    columns, known = figures.figures(), found()
    card = {
        "title": "Planner and answerer samples",
        "splits": splits,
        "counted_in": unit,
        "planning": {
            **columns["plan"],
            "kind_foretold_by_steps_alone": round(kinds.label_by_steps_alone(), 3),
        },
        "answering": columns["answer"],
        "counts": {
            **known.counts.ordered(),
            **kinds.first_plan_counts(),
            "prompts that came again": checked.repeats,
            "contradictory samples dropped": checked.contradictions,
            **({"samples not chosen": checked.not_chosen} if checked.not_chosen else {}),
        },
        "triples_of_passages": count_ways(look_ups()),
        "skipped_records": dict(known.skipped),
        "skipped_examples": known.skipped_examples,
        "options": _options(options),
        "sources": known.sources,
        "samples_to_read": [sample.to_json() for sample in examples.samples()],
    }
    write_card(folder, card)
    return card


def _options(options: argparse.Namespace) -> dict[str, Any]:
    names = (
        "seed", "fractions", "top_k", "max_triples", "gold_rate", "plan_samples_per_question",
        "first_plan_fraction", "balance_plans", "answer_fraction",
    )  # fmt: skip
    given = {name: getattr(options, name) for name in names}
    extracted = options.triples.name if options.triples else None
    return {**given, "fractions": list(options.fractions), "extracted_triples": extracted}


def _checked(
    questions: Iterable[QuestionSamples], options: argparse.Namespace, work: Path
) -> CheckedSamples[RasSample]:
    sampling = PlanSampling(
        options.plan_samples_per_question,
        options.first_plan_fraction,
        options.seed,
        options.balance_plans,
        options.answer_fraction,
    )
    chooser, check = SampleChooser(sampling, work), SampleCheck(work, RasSample)
    for question in questions:
        for sample in question.samples:
            chooser.add(sample)
            check.add(sample)
    return check.checked(options.skip_contradictions, chooser.chosen())
