"""Plans round-trip, and no text of a model breaks their parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.planning import (
    Plan,
    PlanAction,
    cut_plans,
    folded,
    format_plan,
    format_plans,
    parse_plan,
    parse_plans,
    strip_tags,
)

SUBQUERIES = st.text().map(strip_tags).filter(bool)
PLANS = st.builds(Plan, st.just(PlanAction.SUBQ), SUBQUERIES) | st.sampled_from(
    [Plan(PlanAction.SUFFICIENT), Plan(PlanAction.NO_RETRIEVAL)]
)


@given(PLANS)
def test_round_trip(plan: Plan) -> None:
    assert parse_plan(format_plan(plan)).plan == plan


@given(
    st.text() | st.lists(st.sampled_from(["[SUBQ]", "\n", "who?", "[SUFFICIENT]"])).map(" ".join)
)
def test_any_text_parses_without_error(text: str) -> None:
    parsed = parse_plan(text)
    assert (parsed.plan is None) == (parsed.malformed == 1)


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("This is insufficient.", None),
        ("SUFFICIENT", None),
        ("[SUBQ]", None),
        ("[SUBQ] Who?\nmore text", Plan(PlanAction.SUBQ, "Who?")),
        ("[SUBQ] Who? [SUFFICIENT]", Plan(PlanAction.SUBQ, "Who?")),
        ("[NO RETRIEVAL]", Plan(PlanAction.NO_RETRIEVAL)),
        ("Sure: [SUFFICIENT].", Plan(PlanAction.SUFFICIENT)),
    ],
)
def test_model_text(text: str, plan: Plan | None) -> None:
    assert parse_plan(text).plan == plan


@pytest.mark.parametrize("plan", [Plan(PlanAction.SUBQ), Plan(PlanAction.SUFFICIENT, "Who?")])
def test_subquery_belongs_to_subq_alone(plan: Plan) -> None:
    with pytest.raises(ValueError, match="only \\[SUBQ\\]"):
        format_plan(plan)


ENOUGH = Plan(PlanAction.SUFFICIENT)
WHO, WHEN = Plan(PlanAction.SUBQ, "Who?"), Plan(PlanAction.SUBQ, "When?")


@given(
    st.lists(
        st.builds(Plan, st.just(PlanAction.SUBQ), SUBQUERIES),
        unique_by=lambda plan: folded(plan.subquery),
        min_size=1,
    ),
    st.booleans(),
)
def test_several_plans_round_trip(plans: list[Plan], ends: bool) -> None:
    plans = [*plans, ENOUGH] if ends else plans
    parsed = parse_plans(format_plans(plans))
    assert (list(parsed.plans), parsed.malformed) == (plans, 0)
    assert parse_plan(format_plans(plans)).plan == plans[0]


@given(
    st.text() | st.lists(st.sampled_from(["[SUBQ]", "\n", "who?", "[SUFFICIENT]"])).map(" ".join)
)
def test_the_first_of_several_plans_is_the_one_plan(text: str) -> None:
    parsed, one = parse_plans(text), parse_plan(text).plan
    assert (parsed.plans[0] if parsed.plans else None) == one
    assert all(plan.action is PlanAction.SUBQ for plan in parsed.plans[:-1])


@pytest.mark.parametrize(
    ("text", "plans", "malformed"),
    [
        ("[SUBQ] Who?\n[SUBQ] When?\n[SUFFICIENT]", (WHO, WHEN, ENOUGH), 0),
        ("[SUBQ] Who? [SUBQ] When?", (WHO, WHEN), 0),
        ("[SUBQ] Who?\n[SUBQ] Who?\n[SUFFICIENT]", (WHO, ENOUGH), 0),
        ("[SUBQ] Who?\n[SUBQ] who?\n[SUBQ] When?", (WHO, WHEN), 0),
        ("[SUFFICIENT]\n[SUBQ] Who?", (ENOUGH,), 0),
        ("[SUBQ] Who?\n[NO_RETRIEVAL]\n[SUFFICIENT]", (WHO, ENOUGH), 1),
        ("[SUBQ] Who?\n[SUBQ]", (WHO,), 1),
        ("[SUBQ]\n[SUBQ] Who?", (), 1),
        ("Who?", (), 1),
    ],
)
def test_texts_with_several_plans(text: str, plans: tuple[Plan, ...], malformed: int) -> None:
    parsed = parse_plans(text)
    assert (parsed.plans, parsed.malformed) == (plans, malformed)


@pytest.mark.parametrize(
    ("most", "kept"), [(1, [WHO]), (2, [WHO, WHEN, ENOUGH]), (3, [WHO, WHEN, ENOUGH])]
)
def test_plans_that_are_cut_have_no_end(most: int, kept: list[Plan]) -> None:
    assert cut_plans([WHO, WHEN, ENOUGH], most) == kept
    assert cut_plans([WHO, WHEN], most) == [plan for plan in kept if plan != ENOUGH]


@pytest.mark.parametrize(
    "plans", [[], [ENOUGH, WHO], [ENOUGH, ENOUGH], [WHO, Plan(PlanAction.NO_RETRIEVAL)]]
)
def test_nothing_follows_an_end(plans: list[Plan]) -> None:
    with pytest.raises(ValueError, match=r"ends|NO_RETRIEVAL"):
        format_plans(plans)
