"""Labels of the states that Algorithm 1 of RAS passes."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from data_gen.facts.passage_triples import PassageTriples
from data_gen.hotpot_subq.documents import QuestionFiles
from data_gen.samples.trajectories import instructed_question, no_retrieval_samples
from data_gen.teacher.prompts import Asker
from models.formats.passages import context_passages
from models.formats.planning import HistoryStep, Plan, PlanAction, format_plan
from models.formats.records import PassageRecord, QuestionRecord, RasSample
from models.formats.triples import Triple

FIRST_PLANS = ("question", "subquery", "none")
TriplesOf = Callable[[PassageRecord], Sequence[Triple]]
MakeSamples = Callable[[QuestionRecord], tuple[str, list[RasSample]]]


@dataclass(frozen=True)
class Decision:
    """A question as a stage leaves it.

    outcome: one of the stage's own words; each question has exactly one. kept: the next stage
    gets it. failed: the teacher gave no answer, so that another run may decide otherwise. notes:
    what else befell it, any number. prediction: a base model's answer, if asked.
    """

    record: QuestionRecord
    outcome: str
    kept: bool = False
    failed: bool = False
    notes: tuple[str, ...] = ()
    prediction: str | None = None


Decide = Callable[[QuestionRecord, Asker], Awaitable[Decision]]


@dataclass
class DecisionCounts:
    """Numbers of questions by outcome."""

    kept: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    def take(self, decision: Decision) -> None:
        """Count one question."""
        counter = self.kept if decision.kept else self.left_out
        (self.failed if decision.failed else counter)[decision.outcome] += 1
        self.notes.update(decision.notes)

    def check(self, read: int) -> None:
        """Raise ValueError unless every question that was read has one outcome."""
        counted = self.kept.total() + self.left_out.total() + self.failed.total()
        if counted != read:
            raise ValueError(f"{read} questions were read and {counted} have an outcome")

    def as_dict(self) -> dict[str, Any]:
        """Return the counts by outcome, sorted by name."""
        return {
            "questions": self.kept.total() + self.left_out.total() + self.failed.total(),
            **{name: dict(sorted(counter.items())) for name, counter in vars(self).items()},
        }

    def rows(self) -> list[list[Any]]:
        """Return the rows of a table: kind, outcome, questions."""
        counters = vars(self).items()
        return [[kind, name, n] for kind, c in counters for name, n in sorted(c.items())]


@dataclass(frozen=True)
class AlgorithmOptions:
    """The choices that the algorithm leaves open.

    first_plan: the label of an empty history where retrieval is needed. As printed the algorithm
    gives it none, and a planner would only ever see [NO_RETRIEVAL] there: "question" asks for the
    question itself, as the loop does (eq. 1), "subquery" for the first sub-query. max_triples: of
    a document, the first ones; None keeps all.
    """

    first_plan: str = "question"
    max_triples: int | None = None


def document_steps(
    record: QuestionRecord, triples_of: TriplesOf, options: AlgorithmOptions
) -> list[HistoryStep]:
    """Return each sub-query with the triples of its document (line 12).

    A decomposition step without a document has none.
    """
    passages = context_passages(record)
    steps = []
    for step in record.question_decomposition:
        index = step.paragraph_support_idx
        found = [] if index is None else list(dict.fromkeys(triples_of(passages[index])))
        steps.append(HistoryStep(step.question, tuple(found[: options.max_triples])))
    return steps


def algorithm_samples(
    record: QuestionRecord, steps: Sequence[HistoryStep], right: bool, options: AlgorithmOptions
) -> list[RasSample]:
    """Return the planning samples in order and the answering sample last.

    right: the base model's own answer is that of the record (line 4); then nothing is retrieved.
    """
    if right:
        return no_retrieval_samples(record, record.question)
    samples = [_plan(record, [], plan) for plan in _first_plan(record, steps, options)]
    for position in range(1, len(steps)):
        plan = Plan(PlanAction.SUBQ, steps[position].subquery)
        samples.append(_plan(record, steps[:position], plan))
    samples.append(_plan(record, steps, Plan(PlanAction.SUFFICIENT)))
    return [*samples, answer_sample(record, record.question, steps)]


def answer_sample(
    record: QuestionRecord, question: str, steps: Sequence[HistoryStep] = ()
) -> RasSample:
    """Return an answering sample; without steps it is marked [NO_RETRIEVAL] (RAS Fig. 12)."""
    return RasSample(f"{record.id}/answer", "answer", question, list(steps), record.answer)


def _first_plan(
    record: QuestionRecord, steps: Sequence[HistoryStep], options: AlgorithmOptions
) -> list[Plan]:
    asked = {"question": [record.question], "subquery": [steps[0].subquery], "none": []}
    return [Plan(PlanAction.SUBQ, text) for text in asked[options.first_plan]]


def _plan(record: QuestionRecord, steps: Sequence[HistoryStep], plan: Plan) -> RasSample:
    label = format_plan(plan)
    return RasSample(f"{record.id}/plan/{len(steps)}", "plan", record.question, list(steps), label)


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
        """Return the planning and answering samples of a source that needs no retrieval."""
        return self._each(f"no retrieval: {name}", files, _no_retrieval)

    def answer_only(self, name: str, files: QuestionFiles) -> Iterator[RasSample]:
        """Return the answering samples alone; with the triples of a step's document where there are
        any.
        """

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
