"""A planner's history of subqueries with their triples, and its output (RAS §3.3)."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from models.formats.triples import Triple, format_triple, parse_triples

_SUBQUERY = "[SUBQ] "
_NO_RETRIEVAL = "[NO_RETRIEVAL]"
_GRAPH = "Retrieved Graph Information: "
_TEXT = "Retrieved Text: "
_QUESTION = "Question: "
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class HistoryStep:
    """One round of retrieval: what was asked, and the triples and texts that came back.

    texts: what a loop reads beside or in place of triples, best first: sentences, passages, or
    condition triplets.
    """

    subquery: str
    triples: tuple[Triple, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class History:
    """What is known so far about a question; `no_retrieval` marks a direct answer."""

    question: str
    steps: tuple[HistoryStep, ...] = ()
    no_retrieval: bool = False


@dataclass(frozen=True)
class ParsedHistory:
    """A history read from text, and how many lines or triples were not well formed."""

    history: History
    malformed: int


def one_line(text: str) -> str:
    """Fold white space, line breaks too, so that the text stays on its line."""
    return _SPACE.sub(" ", text).strip()


def folded(text: str) -> str:
    """Fold white space and case: texts that differ in nothing else become the same."""
    return one_line(text).casefold()


def format_graph(triples: Iterable[Triple]) -> str:
    """Write triples as a quoted list (RAS Fig. 10)."""
    quoted = ", ".join(f"'{format_triple(triple)}'" for triple in triples)
    return f"[{quoted}]"


def _format_step(step: HistoryStep) -> str:
    lines = [f"{_SUBQUERY}{one_line(step.subquery)}"]
    if step.triples or not step.texts:
        lines.append(f"{_GRAPH}{format_graph(step.triples)}")
    if step.texts:
        lines.append(
            _TEXT + json.dumps([one_line(text) for text in step.texts], ensure_ascii=False)
        )
    return "\n".join(lines)


def format_history(history: History) -> str:
    """Write a history: a `[SUBQ]` line and a line of triples, of texts or of both a step, then the
    question.

    `[NO_RETRIEVAL]` stands in front of the question when nothing was retrieved (RAS Fig. 12).
    """
    lines = [_format_step(step) for step in history.steps]
    if history.no_retrieval:
        lines.append(_NO_RETRIEVAL)
    return "\n".join([*lines, f"{_QUESTION}{one_line(history.question)}"])


def parse_history(text: str) -> ParsedHistory:
    """Read what `format_history` wrote; never raises, counts lines that do not belong."""
    steps: list[HistoryStep] = []
    question, no_retrieval, malformed = "", False, 0
    for line in text.split("\n"):
        if line.startswith(_QUESTION):
            question = line[len(_QUESTION) :]
        elif line.startswith(_SUBQUERY):
            steps.append(HistoryStep(line[len(_SUBQUERY) :]))
        elif line.startswith(_GRAPH) and steps and not steps[-1].triples:
            parsed = parse_triples(line[len(_GRAPH) :])
            steps[-1] = replace(steps[-1], triples=tuple(parsed.triples))
            malformed += parsed.malformed
        elif line.startswith(_TEXT) and steps and not steps[-1].texts:
            texts = _parse_texts(line[len(_TEXT) :])
            steps[-1] = replace(steps[-1], texts=texts)
            malformed += not texts
        elif line.strip() == _NO_RETRIEVAL:
            no_retrieval = True
        elif line.strip():
            malformed += 1
    return ParsedHistory(History(question, tuple(steps), no_retrieval), malformed)


def _parse_texts(text: str) -> tuple[str, ...]:
    """Return a JSON list's texts; none where it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    texts = found if isinstance(found, list) else []
    return tuple(each for each in texts if isinstance(each, str))


MAX_SUBQUERIES = 4
"""Subqueries that a planner may ask at once."""
STOPPED = "stopped"
"""How the note of a trace begins whose loop ended before its planner had enough."""


class PlanAction(StrEnum):
    """What the planner decided; the value is the tag in the text."""

    SUBQ = "[SUBQ]"
    SUFFICIENT = "[SUFFICIENT]"
    NO_RETRIEVAL = "[NO_RETRIEVAL]"


@dataclass(frozen=True)
class Plan:
    """One decision; `subquery` is set for `SUBQ` alone."""

    action: PlanAction
    subquery: str = ""


@dataclass(frozen=True)
class ParsedPlan:
    """The plan that a text held, or None; `malformed` counts what was not a plan."""

    plan: Plan | None
    malformed: int


@dataclass(frozen=True)
class ParsedPlans:
    """The plans that a text held, in their order; `malformed` counts what was not a plan."""

    plans: tuple[Plan, ...]
    malformed: int


_TAG = re.compile(r"\[\s*(SUBQ|SUFFICIENT|NO[_ ]RETRIEVAL)\s*\]")


def strip_tags(text: str) -> str:
    """Remove every plan tag and fold white space, so that no tag reaches a retriever."""
    return _SPACE.sub(" ", _TAG.sub(" ", text)).strip()


def format_plan(plan: Plan) -> str:
    """Write a plan. Raises ValueError when a subquery is missing or does not belong."""
    subquery = strip_tags(plan.subquery)
    if (plan.action is PlanAction.SUBQ) != bool(subquery):
        raise ValueError(f"{plan.action} with subquery {plan.subquery!r}: only [SUBQ] takes one")
    return f"{plan.action} {subquery}".strip()


def parse_plan(text: str) -> ParsedPlan:
    """Read the first plan of a model's text; never raises.

    A tag counts only with its brackets, so that the word "insufficient" decides nothing. A
    subquery ends at its line's end or at the next tag.
    """
    match = _TAG.search(text)
    if match is None:
        return ParsedPlan(None, 1)
    action = PlanAction(f"[{match[1].replace(' ', '_')}]")
    if action is not PlanAction.SUBQ:
        return ParsedPlan(Plan(action), 0)
    lines = _TAG.split(text[match.end() :], maxsplit=1)[0].strip().splitlines()
    subquery = strip_tags(lines[0]) if lines else ""
    return ParsedPlan(Plan(action, subquery), 0) if subquery else ParsedPlan(None, 1)


def format_plans(plans: Sequence[Plan]) -> str:
    """Write what is done before the planner looks again: subqueries, and an end where they suffice.

    One a line. Raises ValueError for none, and where something follows an end or stands before
    `NO_RETRIEVAL`.
    """
    ends = [place for place, plan in enumerate(plans) if plan.action is not PlanAction.SUBQ]
    last = len(plans) - 1
    if not plans or ends not in ([], [last]):
        raise ValueError(f"{len(plans)} plans, with ends at {ends}: only the last may be an end")
    if last and plans[last].action is PlanAction.NO_RETRIEVAL:
        raise ValueError("[NO_RETRIEVAL] after a subquery")
    return "\n".join(map(format_plan, plans))


def subqueries_of(plans: Iterable[Plan]) -> list[str]:
    """Return what the plans ask, in their order."""
    return [plan.subquery for plan in plans if plan.action is PlanAction.SUBQ]


def cut_plans(plans: Sequence[Plan], max_subqueries: int) -> list[Plan]:
    """Return plans with at most so many subqueries; without their end where any is cut.

    An end behind subqueries that are not asked would come too soon.
    """
    is_cut = len(subqueries_of(plans)) > max_subqueries
    return list(plans[:max_subqueries] if is_cut else plans)


def parse_plans(text: str) -> ParsedPlans:
    """Read all plans of a model's text up to its first end; never raises.

    A subquery that stands there twice, in other letter cases too, is read once. The first plan is
    that of `parse_plan`: where that is none, so are the others.
    """
    starts = [match.start() for match in _TAG.finditer(text)]
    plans: dict[tuple[PlanAction, str], Plan] = {}
    malformed = int(not starts)
    for start, end in pairwise([*starts, len(text)]):
        plan = parse_plan(text[start:end]).plan
        if plan is None:
            malformed += 1
            if not plans:
                break
        elif plan.action is PlanAction.NO_RETRIEVAL and plans:
            malformed += 1
        else:
            plans.setdefault((plan.action, folded(plan.subquery)), plan)
            if plan.action is not PlanAction.SUBQ:
                break
    return ParsedPlans(tuple(plans.values()), malformed)
