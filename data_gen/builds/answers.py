"""Gold answers over what the trajectories of a loop found, and the plans that led to right ones."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.commands import share
from common.shards import Shard
from data_gen.builds.build import Build
from data_gen.builds.cards import RasFigures
from data_gen.builds.questions import WholeReading
from data_gen.builds.shards import Reading
from data_gen.samples.labels import CheckedSamples, check_labels
from data_gen.samples.trajectories import supported_label
from data_gen.sources.arguments import add_question_options, named_path
from data_gen.streaming.counts import CountTokens
from models.formats.records import QuestionRecord, RasSample, read_records
from models.formats.trajectories import Trajectory

SOURCES = ("hotpotqa", "2wikimultihopqa", "musique", "world")


class AnswersReading(WholeReading[RasSample]):
    """Makes a sample of each trajectory whose question has an answer to learn, and counts.

    The option `plans_from` adds the plans of trajectories with at least that F1. The questions are
    held in memory, the trajectories pass.
    """

    def items(self) -> Iterator[RasSample]:
        """Yield the samples, trajectory by trajectory."""
        questions = {
            record.id: record
            for source in self.options.source
            for record in self.reader.stream(source)
        }
        for path in self.options.trajectories:
            for trajectory in tqdm(read_records(path, Trajectory), desc=str(path)):
                record = questions.get(trajectory.id)
                if record is None:
                    self.counts["left out: of a question that no source has"] += 1
                else:
                    yield from self._answer(record, trajectory)
                    yield from self._plans(record, trajectory)

    def _answer(self, record: QuestionRecord, trajectory: Trajectory) -> Iterator[RasSample]:
        answers = trajectory.asked("answer")
        if not answers:
            self.counts["left out: the answerer was not asked"] += 1
            return
        # An answer that was asked for beside a plan may have been dropped; the last was the loop's.
        last = answers[-1]
        label = supported_label(record, last.history)
        if label is None:
            self.counts["left out: nothing that was found holds the answer"] += 1
        else:
            self.counts["samples"] += 1
            sample_id = f"{record.id}/answer/{trajectory.number}"
            yield replace(last, id=sample_id, label=label)

    def _plans(self, record: QuestionRecord, trajectory: Trajectory) -> Iterator[RasSample]:
        least = self.options.plans_from
        # What the loop noted, such as a repeated subquery, is not to be learned.
        if least is None or trajectory.notes or (trajectory.f1 or 0.0) < least:
            return
        for number, plan in enumerate(trajectory.asked("plan")):
            self.counts["plans"] += 1
            yield replace(plan, id=f"{record.id}/plan/{trajectory.number}.{number}")


class AnswersBuild(Build[RasSample, RasSample]):
    """Answers over what was found, and plans if wanted, each prompt once."""

    name = "build_answers"
    title = "Answers over what a loop found"
    nothing = "no trajectory found what holds the answer to a question of the sources"
    item_type = RasSample
    shown = ("splits", "planning", "answering", "counts")
    columns = ("what", "count")
    shards = False

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add the questions and the trajectories."""
        add = parser.add_argument
        add(
            "--source", type=named_path(SOURCES), action="append", required=True,
            metavar="NAME=PATH",
            help=f"questions with their answers, several times; NAME: {', '.join(SOURCES)}",
        )  # fmt: skip
        add(
            "--trajectories", type=Path, action="append", required=True, metavar="PATH",
            help="trajectories.jsonl of inference/rollout.py, several times",
        )  # fmt: skip
        add(
            "--plans-from", type=share, metavar="F1",
            help="also the plans of trajectories whose answer's F1 is at least this (none)",
        )  # fmt: skip
        add_question_options(parser, "questions of each source")

    def reading(self, shard: Shard) -> AnswersReading:
        """Return the reading of all sources and trajectories."""
        return AnswersReading(self.options, self.work)

    def samples(self, items: Iterable[RasSample]) -> CheckedSamples[RasSample]:
        """Return the samples whose prompt did not come before."""
        self._checked = check_labels(items, True, RasSample, self.work)
        return self._checked

    def figures(self, count_tokens: CountTokens) -> RasFigures:
        """Return the sizes, to be counted."""
        return RasFigures(count_tokens)

    def split_key(self, sample: RasSample) -> str:
        """Return the question: its samples share a split."""
        return sample.question_id

    def card(self, figures: dict[str, Any], read: Reading[RasSample]) -> dict[str, Any]:
        """Return figures, counts, options and sources."""
        known = read.found()
        return {
            "planning": figures["plan"],
            "answering": figures["answer"],
            "counts": {**known.counts, **self._checked.left_out()},
            **known.skipped_part(),
            "options": self.chosen("seed", "fractions", "plans_from"),
            "sources": known.sources,
        }

    def rows(self, card: Mapping[str, Any]) -> list[list[Any]]:
        """Return splits and counts."""
        return [[name, count] for name, count in {**card["splits"], **card["counts"]}.items()]
