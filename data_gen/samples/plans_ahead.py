"""Plans of several steps, of a question's annotation or of what a loop did.

What is asked one by one is asked at once where no later subquery needs an earlier one's answer, and
the plan that finds it all sufficient stands behind the subqueries that make it so.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from data_gen.facts.solving_steps import SolvingStep
from data_gen.samples.trajectories import no_retrieval_samples
from models.facts.subqueries import answered_triple
from models.formats.planning import (
    MAX_SUBQUERIES,
    STOPPED,
    HistoryStep,
    Plan,
    PlanAction,
    format_plans,
    one_line,
    parse_plans,
)
from models.formats.records import QuestionRecord, RasSample
from models.formats.trajectories import Trajectory, TrajectoryStep
from models.formats.triples import Triple

_WORD = re.compile(r"\b\w+")


def samples_ahead(trajectory: Trajectory) -> list[RasSample]:
    """Return a trajectory's plans as they are written ahead, and its answer as it was.

    None where a plan could not be read, or the planner did not end the loop itself: how many steps
    were enough is then not told.
    """
    if any(note.startswith(STOPPED) for note in trajectory.notes):
        return []
    plans = [parse_plans(sample.label) for sample in trajectory.asked("plan")]
    if not plans or any(parsed.malformed or not parsed.plans for parsed in plans):
        return []
    if plans[-1].plans[-1].action is PlanAction.SUBQ:
        return []
    name = f"{trajectory.id}/answer/{trajectory.number}"
    answers = [replace(sample, id=name) for sample in trajectory.asked("answer")]
    if not trajectory.steps:
        return [_sample(trajectory, 0, [Plan(PlanAction.NO_RETRIEVAL)]), *answers]
    samples = [_sample(trajectory, start, own) for start, own in _written_ahead(trajectory)]
    return [*samples, *answers]


def annotated_ahead(record: QuestionRecord, steps: Sequence[SolvingStep]) -> list[RasSample]:
    """Return the plans of a question's annotated steps, written ahead, and its answer.

    The history states what the annotation does, as an extractive reader would write it. Without
    steps the question needs no retrieval. Steps that say no fact, as HotpotQA's, tell no plan but
    of a comparison: what it compares by is the question's own, so that it is asked whole.
    """
    if not steps:
        return no_retrieval_samples(record, record.question)
    if not all(step.answer or step.fact.object for step in steps):
        if record.type != "comparison":
            return []
        whole = [Plan(PlanAction.SUBQ, record.question), Plan(PlanAction.SUFFICIENT)]
        name = f"{record.id}/plan/0"
        return [RasSample(name, "plan", record.question, [], format_plans(whole))]
    samples: list[RasSample] = []
    history: list[HistoryStep] = []
    rounds = _rounds(record.question, steps)
    for number, own in enumerate(rounds):
        plans = [Plan(PlanAction.SUBQ, step.subquery) for step in own]
        ends = [Plan(PlanAction.SUFFICIENT)] if number + 1 == len(rounds) else []
        name = f"{record.id}/plan/{len(history)}"
        label = format_plans([*plans, *ends])
        samples.append(RasSample(name, "plan", record.question, list(history), label))
        history += [HistoryStep(step.subquery, (_read_off(step),)) for step in own]
    name = f"{record.id}/answer"
    return [*samples, RasSample(name, "answer", record.question, history, record.answer)]


def _rounds(question: str, steps: Sequence[SolvingStep]) -> list[list[SolvingStep]]:
    """Return the steps in rounds, each after those whose answers it needs or names."""
    rounds: list[list[SolvingStep]] = []
    left, done = list(steps), set[int]()
    known = question
    while left:
        free = [step for step in left if done.issuperset(step.needs)]
        named = [step for step in free if _names_known(step.subquery, known)]
        # A name in another form than its answer is nowhere said.
        own = (named or free)[: MAX_SUBQUERIES if named else 1]
        rounds.append(own)
        left = [step for step in left if step not in own]
        done |= {place for place, step in enumerate(steps) if step in own}
        known = " ".join([known, *(step.answer or step.fact.object for step in own)])
    return rounds


def _read_off(step: SolvingStep) -> Triple:
    title = step.passage.title if step.passage else step.fact.subject
    return answered_triple(step.subquery, step.answer or step.fact.object, title)


def needs_no_answer(subquery: str, known: str, steps: Sequence[TrajectoryStep]) -> bool:
    """Return whether a subquery can be asked beside these steps, before their answers are there.

    known: the question and what was found before. All names and numbers of the subquery but its
    first word stand there, and it holds nothing that the steps found and that does not.
    """
    asked, said = subquery.casefold(), known.casefold()
    triples = [triple for step in steps for triple in step.triples]
    # "Who wrote it?" is answered by the subject of (Ana, wrote, it).
    found = [text.casefold() for triple in triples for text in (triple.subject, triple.object)]
    is_named = any(text and text in asked and text not in said for text in found)
    return _names_known(subquery, known) and not is_named


def _names_known(subquery: str, known: str) -> bool:
    """Return whether all names and numbers of a subquery but its first word stand in a text."""
    words = set(re.findall(r"\w+", known.casefold()))
    asked = (word[0] for word in _WORD.finditer(subquery.strip()) if word.start())
    names = (word for word in asked if word[0].isupper() or word[0].isdigit())
    return all(name.casefold() in words for name in names)


def _written_ahead(trajectory: Trajectory) -> Iterator[tuple[int, list[Plan]]]:
    """Yield from which step on the planner looks again, and what it then writes."""
    steps, start = trajectory.steps, 0
    while start < len(steps):
        end = _asked_at_once(trajectory, start)
        own = steps[start:end]
        plans = [Plan(PlanAction.SUBQ, step.subquery) for step in own]
        # The loop looks again where one of them finds nothing.
        if end == len(steps) and all(step.triples for step in own):
            plans.append(Plan(PlanAction.SUFFICIENT))
        yield start, plans
        start = end
    if not all(step.triples for step in own):
        yield start, [Plan(PlanAction.SUFFICIENT)]


def _asked_at_once(trajectory: Trajectory, start: int) -> int:
    """Return the end of the steps from `start` on that do not need each other's answers."""
    steps = trajectory.steps
    triples = [triple for step in steps[:start] for triple in step.triples]
    found = [text for triple in triples for text in (triple.subject, triple.object)]
    known = one_line(" ".join([trajectory.question, *found]))
    for end in range(start + 1, min(len(steps), start + MAX_SUBQUERIES)):
        if not needs_no_answer(steps[end].subquery, known, steps[start:end]):
            return end
    return min(len(steps), start + MAX_SUBQUERIES)


def _sample(trajectory: Trajectory, start: int, plans: Sequence[Plan]) -> RasSample:
    history = [HistoryStep(step.subquery, tuple(step.triples)) for step in trajectory.steps[:start]]
    name = f"{trajectory.id}/plan/{trajectory.number}.{start}"
    return RasSample(name, "plan", trajectory.question, history, format_plans(plans))
