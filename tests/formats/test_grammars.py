"""What a grammar lets through parses whole; what training writes, a grammar lets through."""

import re

from hypothesis import given
from hypothesis import strategies as st

from models.formats.conditions import ConditionTriplet, format_conditions, parse_conditions
from models.formats.grammars import conditions_regex, plan_regex, triples_regex
from models.formats.planning import (
    Plan,
    PlanAction,
    format_plan,
    format_plans,
    parse_plan,
    parse_plans,
)
from models.formats.triples import Triple, format_triples, parse_triples

# Short, so that examples come quickly.
PLANS = re.compile(plan_regex(12))
TRIPLES = re.compile(triples_regex(3, 5))
CONDITIONS = re.compile(conditions_regex(3, 5))
WORDS = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="()[]\\|<>"), min_size=1
)
PHRASES = st.lists(WORDS | st.builds("({})".format, WORDS), min_size=1, max_size=4).map(" ".join)


@given(st.from_regex(PLANS, fullmatch=True))
def test_a_held_plan_parses(text: str) -> None:
    parsed = parse_plan(text)
    assert parsed.malformed == 0
    assert parsed.plan is not None


@given(st.from_regex(re.compile(plan_regex(12, max_subqueries=3)), fullmatch=True))
def test_held_plans_parse(text: str) -> None:
    parsed = parse_plans(text)
    assert parsed.malformed == 0
    assert 1 <= len(parsed.plans) <= 4


@given(st.from_regex(TRIPLES, fullmatch=True))
def test_held_triples_parse(text: str) -> None:
    parsed = parse_triples(text)
    assert parsed.malformed == 0
    assert len(parsed.triples) == text.count("(S> ")


@given(st.from_regex(CONDITIONS, fullmatch=True))
def test_held_condition_triplets_parse(text: str) -> None:
    parsed = parse_conditions(text)
    assert parsed.malformed == 0
    assert bool(parsed.triplets) == bool(text)


@given(st.builds(Plan, st.just(PlanAction.SUBQ), PHRASES))
def test_a_plan_of_training_is_let_through(plan: Plan) -> None:
    assert re.fullmatch(plan_regex(), format_plan(plan)[:300])
    for action in (PlanAction.SUFFICIENT, PlanAction.NO_RETRIEVAL):
        assert re.fullmatch(plan_regex(), format_plan(Plan(action)))


@given(
    st.lists(st.builds(Plan, st.just(PlanAction.SUBQ), PHRASES), min_size=1, max_size=4),
    st.booleans(),
)
def test_plans_of_training_are_let_through(plans: list[Plan], ends: bool) -> None:
    text = format_plans([*plans, Plan(PlanAction.SUFFICIENT)] if ends else plans)
    assert re.fullmatch(plan_regex(4000, max_subqueries=4), text)


@given(st.lists(st.builds(Triple, PHRASES, PHRASES, PHRASES), max_size=5))
def test_triples_of_training_are_let_through(triples: list[Triple]) -> None:
    assert re.fullmatch(triples_regex(max_characters=500), format_triples(triples))


@given(st.lists(st.builds(ConditionTriplet, PHRASES, PHRASES | st.just(""), PHRASES), max_size=5))
def test_condition_triplets_of_training_are_let_through(triplets: list[ConditionTriplet]) -> None:
    assert re.fullmatch(conditions_regex(), format_conditions(triplets))


def test_a_tag_inside_a_field_is_not_let_through() -> None:
    assert not re.fullmatch(plan_regex(), "[SUBQ] Who? [SUFFICIENT]")
    assert not re.fullmatch(triples_regex(), "(S> a| P> b| O> c (S> d)")
    assert not re.fullmatch(triples_regex(), "(S> a| P> | O> c)")
    assert not re.fullmatch(conditions_regex(), "[C] a [P] b [R] c [P] d")
    assert not re.fullmatch(conditions_regex(), "[C] a [R] c")
