"""Samples of one question by RAS Algorithm 1, line by line.

data_gen/trajectories.py walks the loop instead: it starts from the question itself and shows what
retrieval would have found. Here each sub-query is followed by the triples of its own document.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from data_gen.solving_steps import context_passages
from data_gen.trajectories import no_retrieval_samples
from models.formats.history import HistoryStep
from models.formats.plan import Plan, PlanAction, format_plan
from models.formats.records import PassageRecord, QuestionRecord, RasSample
from models.formats.triples import Triple

FIRST_PLANS = ("question", "subquery", "none")
TriplesOf = Callable[[PassageRecord], Sequence[Triple]]


@dataclass(frozen=True)
class AlgorithmOptions:
    """What the algorithm leaves open.

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
    """Each sub-query with the triples of its document (line 12).

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
    """Planning samples in order and the answering sample last.

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
    """An answering sample; without steps it is marked [NO_RETRIEVAL] (RAS Fig. 12)."""
    return RasSample(f"{record.id}/answer", "answer", question, list(steps), record.answer)


def _first_plan(
    record: QuestionRecord, steps: Sequence[HistoryStep], options: AlgorithmOptions
) -> list[Plan]:
    asked = {"question": [record.question], "subquery": [steps[0].subquery], "none": []}
    return [Plan(PlanAction.SUBQ, text) for text in asked[options.first_plan]]


def _plan(record: QuestionRecord, steps: Sequence[HistoryStep], plan: Plan) -> RasSample:
    label = format_plan(plan)
    return RasSample(f"{record.id}/plan/{len(steps)}", "plan", record.question, list(steps), label)
