"""The planner's output: `[SUBQ] text`, `[SUFFICIENT]` or `[NO_RETRIEVAL]` (RAS §3.1)."""

import re
from dataclasses import dataclass
from enum import StrEnum


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
