"""An oracle walks through the RAS loop and labels every state it passes (RAS Algorithm 1).

The loop's own form is kept: the first subquery is the question itself (RAS eq. 1), later ones
ask for the first fact, in solving order, that the graph does not hold yet. Planned first subqueries
(`OracleOptions.planned_first`) are ours: a question whose steps lead to one fact begins with its
first step, and is asked itself where a step found nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from data_gen.facts.entities import mentions
from data_gen.facts.held_out import wording
from data_gen.facts.solving_steps import SolvingStep, passage_origin
from data_gen.samples.evidence import Form, drawn_form, in_form
from data_gen.sources.splits import hash_fraction
from models.facts.triple_selection import select_triples
from models.formats.helpers import NOTHING
from models.formats.planning import HistoryStep, Plan, PlanAction, format_plan
from models.formats.prompts import with_task_instruction
from models.formats.records import PassageRecord, QuestionRecord, RasSample
from models.formats.triples import Triple

_DECISIONS = ("yes", "no")
Lookup = Callable[[PassageRecord, str], Sequence[Triple]]
"""The triples of a passage that a subquery found."""
Retrieved = dict[str, list[PassageRecord]]


@dataclass(frozen=True)
class OracleOptions:
    """Settings of the oracle's retrieval.

    `top_k` passages a query, at most `max_triples` triples a step; a step's own passage that
    retrieval missed is put first with probability `gold_rate`, drawn from `seed` and the step.
    `supported_answers`: an answer that nothing found holds is no sample, and where no round found
    anything, its label is the word for none. `planned_first`: the share of the questions whose
    steps lead to one fact that begin with their first step; 0 as in the paper. `forms`: those of
    the evidence, one a question.
    """

    top_k: int = 3
    max_triples: int = 8
    gold_rate: float = 0.9
    seed: int = 0
    supported_answers: bool = False
    planned_first: float = 0.0
    forms: tuple[Form, ...] = ("facts",)


@dataclass
class _State:
    """The loop's memory: the history, as it is shown too, and where each triple came from."""

    form: Form = "facts"
    history: list[HistoryStep] = field(default_factory=list)
    shown: list[HistoryStep] = field(default_factory=list)
    found: list[tuple[str, Triple]] = field(default_factory=list)

    def add(self, step: HistoryStep, passages: Sequence[PassageRecord]) -> None:
        """Take in a round with the passages that it found."""
        self.history.append(step)
        self.shown.append(in_form(step, passages, self.form))

    def next_subquery(
        self, question: str, steps: Sequence[SolvingStep], planned: bool
    ) -> str | None:
        """Return what is asked next, None for nothing.

        That is the first step neither known nor asked whose sub-question names only what is known;
        of a planned question where the last round found nothing, the question itself, once.
        """
        asked = {wording(step.subquery) for step in self.history}
        unknown = [step for step in steps if not step.known(self.found)]
        for step in unknown:
            # A bridge that was asked for and missed has no name that the planner could write.
            named = all(steps[need].known(self.found) for need in step.needs)
            if named and wording(step.subquery) not in asked:
                return step.subquery
        found_nothing = planned and unknown and not self.history[-1].triples
        return question if found_nothing and wording(question) not in asked else None


def instructed_question(record: QuestionRecord, dataset: str = "") -> str:
    """Return the question under its data set's instruction (RAS Table 5), or that of choices."""
    has_choices = "\nA: " in record.question
    return with_task_instruction(record.question, "arc_challenge" if has_choices else dataset)


def no_retrieval_samples(record: QuestionRecord, question: str) -> list[RasSample]:
    """Algorithm 1, lines 4 to 6: the plan [NO_RETRIEVAL] and the answer, both without history."""
    label = format_plan(Plan(PlanAction.NO_RETRIEVAL))
    return [
        RasSample(f"{record.id}/plan/0", "plan", question, [], label),
        RasSample(f"{record.id}/answer", "answer", question, [], record.answer),
    ]


def trajectory_samples(
    record: QuestionRecord,
    steps: Sequence[SolvingStep],
    retrieved: Retrieved,
    triples_of: Lookup,
    options: OracleOptions,
) -> list[RasSample]:
    """Return the samples of every state of one question, in the loop's order, the answer last.

    `retrieved` maps the question and each sub-question to passages, best first. Without steps
    the question needs no retrieval.
    """
    if not steps:
        return no_retrieval_samples(record, record.question)
    may_be_planned = options.planned_first > 0 and _leads_on(record, steps)
    chance = hash_fraction(f"{record.id}/first_step", options.seed)
    planned = may_be_planned and chance < options.planned_first
    state, samples = _State(drawn_form(record.id, options.forms, options.seed)), []
    subquery: str | None = steps[0].subquery if planned else record.question
    while subquery is not None:
        samples.append(_plan_sample(record, state, Plan(PlanAction.SUBQ, subquery)))
        passages = retrieved[subquery]
        for position, step in enumerate(steps):
            # A step in the question's own words is asked with it, and not a second time.
            if wording(step.subquery) == wording(subquery):
                passages = with_gold(passages, step, f"{record.id}/{position}", options)
        _retrieve(record, subquery, passages, state, triples_of, options)
        subquery = state.next_subquery(record.question, steps, planned)
    samples.append(_plan_sample(record, state, Plan(PlanAction.SUFFICIENT)))
    if may_be_planned and not planned:
        # Others of its kind begin with a step, which this first plan would contradict.
        del samples[0]
    return [*samples, *_answer_sample(record, state, options.supported_answers)]


def has_one_end(steps: Sequence[SolvingStep]) -> bool:
    """Return whether all steps lead to one of them, as a comparison's do not."""
    needed = {need for step in steps for need in step.needs}
    return len(set(range(len(steps))) - needed) == 1


def _leads_on(record: QuestionRecord, steps: Sequence[SolvingStep]) -> bool:
    """Return whether a question's first step says another thing and leads to its answer."""
    return has_one_end(steps) and wording(steps[0].subquery) != wording(record.question)


def _answer_sample(record: QuestionRecord, state: _State, supported: bool) -> list[RasSample]:
    """Return the sample of the answer, none where it has no support and needs it."""
    label = supported_label(record, state.history) if supported else record.answer
    shown = list(state.shown)
    sample = RasSample(f"{record.id}/answer", "answer", record.question, shown, label or "")
    return [sample] if label else []


def supported_label(record: QuestionRecord, history: Sequence[HistoryStep]) -> str | None:
    """Return the answer to learn over what was found: the gold one where that holds it.

    Where no round found anything it is the word for none; None where nothing of it can be learned.
    """
    found = [text for step in history for t in step.triples for text in (t.subject, t.object)]
    chosen = record.answer.casefold() in _DECISIONS or mentions(record.question, record.answer)
    if chosen or any(mentions(text, answer) for text in found for answer in record.answers):
        return record.answer
    return None if found else NOTHING


def _plan_sample(record: QuestionRecord, state: _State, plan: Plan) -> RasSample:
    sample_id = f"{record.id}/plan/{len(state.history)}"
    return RasSample(sample_id, "plan", record.question, list(state.shown), format_plan(plan))


def with_gold(
    passages: Sequence[PassageRecord], step: SolvingStep, key: str, options: OracleOptions
) -> list[PassageRecord]:
    """Return retrieved passages, the step's own put first where it was missed and luck has it."""
    top = list(passages[: options.top_k])
    gold = step.passage
    if gold is None or passage_origin(gold) in map(passage_origin, top):
        return top
    if hash_fraction(f"{key}/gold", options.seed) >= options.gold_rate:
        return top
    return [gold, *top][: options.top_k]


def _retrieve(
    record: QuestionRecord,
    subquery: str,
    passages: Sequence[PassageRecord],
    state: _State,
    triples_of: Lookup,
    options: OracleOptions,
) -> None:
    """Add one round to the state: the chosen new triples, and which passages gave what is known."""
    origins: dict[Triple, list[str]] = {}
    for passage in passages[: options.top_k]:
        for triple in triples_of(passage, subquery):
            origins.setdefault(triple, []).append(passage_origin(passage))
    known = [triple for step in state.history for triple in step.triples]
    chosen = select_triples(subquery, record.question, list(origins), options.max_triples, known)
    state.add(HistoryStep(subquery, tuple(chosen)), passages[: options.top_k])
    shown = {*known, *chosen}
    state.found.extend(
        (o, triple) for triple in origins if triple in shown for o in origins[triple]
    )
