"""A helper's samples out of all sources of one build."""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.shards import Shard
from data_gen.builds.build import Build
from data_gen.builds.cards import InstructionFigures
from data_gen.builds.questions import WholeReading, load_corpus, world_triples
from data_gen.builds.shards import Reading
from data_gen.facts.held_out import wording
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
from data_gen.samples.labels import CheckedSamples, check_labels
from data_gen.samples.material import Material, PassageFinder, SampleMaker, SampleOptions
from data_gen.sources.arguments import NamedPath, add_question_options, named_path, source_entry
from data_gen.sources.splits import hash_fraction
from data_gen.streaming.counts import CountTokens
from data_gen.streaming.files import EveryFew, Spool
from data_gen.streaming.groups import DiskGroups
from models.formats.records import HelperTask, InstructionSample, PassageRecord, QuestionRecord

SAMPLES_TO_READ = 20
_SOURCES = ("hotpotqa", "2wikimultihopqa", "musique", "subquestions", "world", CHOICES)
QUESTION_TASKS: dict[HelperTask, SampleMaker] = {
    "subquery": subquery_samples,
    "decompose": decompose_samples,
    "resolve": resolve_samples,
    "judge_gap": judge_gap_samples,
}


class InstructionReading(WholeReading[InstructionSample]):
    """Makes samples of instructions and counts what happened on the way."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        super().__init__(options, work)
        self.triples = PassageTriples(folder=work)


class HelpersReading(InstructionReading):
    """Makes the samples of one task.

    The questions pass through files in `work`; the corpora are held in memory.
    """

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        super().__init__(options, work)
        self._wordings = DiskGroups(work)
        self.corpora = self._corpora()
        self.finder = PassageFinder([p for corpus in self.corpora.values() for p in corpus])

    def items(self) -> Iterator[InstructionSample]:
        """Yield samples source by source. Raises ValueError for a task that a source has not."""
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
        """Tell whether no source had the question: under two ids it could come into two splits."""
        asked = wording(record.question)
        if asked in self._wordings:
            self.counts["left out: the same question again"] += 1
            return False
        self._wordings.add(asked)
        return True

    def _material(self, name: str) -> Material:
        by_title: dict[str, PassageRecord] = {}
        for passage in self.corpora.get(name, []):
            by_title.setdefault(passage.title, passage)
        names = {field.name for field in fields(SampleOptions)}
        given = {name: value for name, value in vars(self.options).items() if name in names}
        chosen = SampleOptions(**given)
        return Material(by_title, self.finder, self.triples, chosen, self.counts)

    def _corpora(self) -> dict[str, list[PassageRecord]]:
        """Return the passages by source; a world brings its own, with their triples."""
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
        entities = sorted(
            {sample.source_id for sample in samples},
            key=lambda entity: hash_fraction(f"cap/{entity}", self.options.seed),
        )
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


class InstructionBuild(Build[InstructionSample, InstructionSample]):
    """Samples of instructions, each prompt once, of a build that is made in one."""

    item_type = InstructionSample
    columns = ("what", "count")
    shards = False
    # Named in the card, beside seed and fractions.
    of_prompts: tuple[str, ...] = ()

    def samples(self, items: Iterable[InstructionSample]) -> CheckedSamples[InstructionSample]:
        """Return the samples with distinct prompts; of two labels the first stays."""
        self._checked = check_labels(items, True, InstructionSample, self.work)
        return self._checked

    def figures(self, count_tokens: CountTokens) -> InstructionFigures:
        """Return the sizes, to be counted."""
        return InstructionFigures(count_tokens, self.work)

    def examples(self, count: int) -> EveryFew[InstructionSample]:
        """Return what picks samples at equal distances."""
        return EveryFew(SAMPLES_TO_READ, count)

    def card(self, figures: dict[str, Any], read: Reading[InstructionSample]) -> dict[str, Any]:
        """Return figures, counts, options and sources."""
        known = read.found()
        return {
            "figures": figures,
            "counts": {**known.counts, **self._checked.left_out()},
            **known.skipped_part(),
            "options": self.chosen("seed", "fractions", *self.of_prompts),
            "sources": known.sources,
            "seed": self.options.seed,
        }

    def rows(self, card: Mapping[str, Any]) -> list[list[Any]]:
        """Return splits and counts."""
        return [[name, count] for name, count in {**card["splits"], **card["counts"]}.items()]


class HelpersBuild(InstructionBuild):
    """The samples of one helper's task, each prompt once."""

    name = "build_helpers"
    title = "Helper samples: {task}"
    nothing = "the sources hold no annotation for the task {task}"
    shown = ("task", "splits", "figures", "counts")
    of_prompts = ("passages", "nothing_rate", "propositions_rate", "distractors")

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add task, sources and what a prompt shows."""
        add = parser.add_argument
        add("--task", choices=InstructionSample.tasks, required=True)
        add(
            "--source", type=named_path(_SOURCES), action="append", required=True,
            metavar="NAME=PATH",
            help=f"questions, with or without text, several times; NAME: {', '.join(_SOURCES)}",
        )  # fmt: skip
        add(
            "--corpus", type=named_path(_SOURCES), action="append", default=[], metavar="NAME=PATH",
            help="passages for questions without text; those of any NAME are searched (a world's "
            "own)",
        )  # fmt: skip
        add_question_options(parser, "questions (topic: entities) of each source")
        _add_prompt_options(parser)

    def heading(self) -> dict[str, Any]:
        """Return the title and the task."""
        return {**super().heading(), "task": self.options.task}

    def reading(self, shard: Shard) -> HelpersReading:
        """Return the reading of all sources."""
        return HelpersReading(self.options, self.work)

    def split_key(self, sample: InstructionSample) -> str:
        """Return the question or the entity: its samples share a split."""
        return sample.source_id


def _add_prompt_options(parser: argparse.ArgumentParser) -> None:
    default = SampleOptions()
    parser.add_argument(
        "--passages", type=int, default=default.passages, help="resolve: of a prompt (%(default)s)"
    )
    parser.add_argument(
        "--nothing-rate", type=float, default=default.nothing_rate,
        help="resolve: share of samples whose passages do not tell (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--propositions-rate", type=float, default=default.propositions_rate,
        help="resolve: share of samples that show facts in place of passages (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--distractors", type=int, default=default.distractors,
        help="judge_gap: most other facts shown beside each needed one (%(default)s)",
    )  # fmt: skip
