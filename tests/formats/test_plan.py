"""Plans round-trip, and no text of a model breaks their parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.planning import Plan, PlanAction, format_plan, parse_plan, strip_tags

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
