"""Samples of all sources of HotpotQA-SUBQ, and what became of each question."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tqdm import tqdm

from data_gen.hotpot_subq.algorithm_one import (
    AlgorithmOptions,
    algorithm_samples,
    answer_sample,
    document_steps,
)
from data_gen.hotpot_subq.question_files import QuestionFiles
from data_gen.passage_triples import PassageTriples
from data_gen.trajectories import instructed_question, no_retrieval_samples
from models.formats.records import QuestionRecord, RasSample

MakeSamples = Callable[[QuestionRecord], tuple[str, list[RasSample]]]


@dataclass
class Labelling:
    """Labels questions and counts them by outcome; the counts of a source add up to what it read.

    right: ids of the questions that the base model answered right without context.
    """

    triples: PassageTriples
    right: set[str]
    options: AlgorithmOptions
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    read_of: Counter[str] = field(default_factory=Counter)

    def questions(self, files: QuestionFiles) -> Iterator[RasSample]:
        """Algorithm 1 on questions with sub-queries."""
        return self._each("questions", files, self._by_algorithm)

    def left_out(self, files: QuestionFiles) -> Iterator[RasSample]:
        """Answers to questions that the filter left out, of those answered right (App. C.4)."""
        return self._each("left out by the filter", files, self._right_answer)

    def no_retrieval(self, name: str, files: QuestionFiles) -> Iterator[RasSample]:
        """Planning and answering samples of a source that needs no retrieval."""
        return self._each(f"no retrieval: {name}", files, _no_retrieval)

    def answer_only(self, name: str, files: QuestionFiles) -> Iterator[RasSample]:
        """Answering samples alone; with the triples of a step's document where there are any."""

        def made(record: QuestionRecord) -> tuple[str, list[RasSample]]:
            steps = document_steps(record, self.triples.of, self.options)
            steps = [step for step in steps if step.triples]
            outcome = "answered over triples" if steps else "answered without retrieval"
            return outcome, [answer_sample(record, instructed_question(record, name), steps)]

        return self._each(f"answers: {name}", files, made)

    def _each(self, source: str, files: QuestionFiles, made: MakeSamples) -> Iterator[RasSample]:
        counts = self.counts.setdefault(source, Counter())
        for record in tqdm(files, desc=source, unit=" questions"):
            outcome, own = made(record)
            counts[outcome] += 1
            yield from own
        counts.update(files.left_out)
        self.read_of.update(files.read_of)
        if counts.total() != files.read:
            raise ValueError(f"{source}: {files.read} read and {counts.total()} have an outcome")

    def _by_algorithm(self, record: QuestionRecord) -> tuple[str, list[RasSample]]:
        steps = document_steps(record, self.triples.of, self.options)
        right = record.id in self.right
        if not right and not steps:
            return "no sub-queries", []
        if not right and not any(step.triples for step in steps):
            return "no triples in any document", []
        outcome = "no retrieval" if right else f"{len(steps)} sub-queries"
        return outcome, algorithm_samples(record, steps, right, self.options)

    def _right_answer(self, record: QuestionRecord) -> tuple[str, list[RasSample]]:
        if record.id not in self.right:
            return "not answered right", []
        return "answered right", [answer_sample(record, record.question)]


def _no_retrieval(record: QuestionRecord) -> tuple[str, list[RasSample]]:
    return "no retrieval", no_retrieval_samples(record, instructed_question(record))
