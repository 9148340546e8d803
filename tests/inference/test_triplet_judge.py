"""The judge: one digit, what cannot be read is counted, the same cuts for all."""

import pytest

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import Sampling
from inference.indexes.knowledge_base.judge import (
    MAX_PASSAGE_CHARACTERS,
    Case,
    Judged,
    alignment_prompt,
    faithfulness_prompt,
    judge,
    of_other_passages,
    with_fields_exchanged,
)
from models.formats.conditions import ConditionTriplet

TRIPLET = ConditionTriplet("A; year", "", "A is of 1990.")


async def test_scores_are_digits_and_the_rest_is_counted() -> None:
    replies = iter(["5", " 3\n", "Score: 1", "great", "15", "6", ""])
    engine = ScriptedEngine(lambda request: next(replies))
    judged = await judge(engine, [faithfulness_prompt(Case("A is of 1990.", TRIPLET))] * 7)
    assert judged == Judged([5, 3, 1], 4)
    assert judged.mean == 3.0 and judged.deviation == pytest.approx(1.633, abs=1e-3)
    assert Judged([], 2).mean is None and Judged([], 2).deviation is None


async def test_decoding_is_greedy_and_short() -> None:
    engine = ScriptedEngine(lambda request: "4")
    await judge(engine, ["a", "b"])
    assert [request.sampling for request in engine.requests] == [Sampling(max_new_tokens=4)] * 2


def test_prompts_show_passage_triplet_and_question() -> None:
    prompt = alignment_prompt(Case("A is\nof 1990. " + "x" * 9000, TRIPLET, "When\nwas A?"))
    assert "[C] A; year [P] [R] A is of 1990." in prompt
    assert "Question: When was A?" in prompt and "Passage: A is of 1990." in prompt
    assert len(prompt) < MAX_PASSAGE_CHARACTERS + 1000
    assert "Question" not in faithfulness_prompt(Case("A", TRIPLET))


def test_a_control_takes_the_next_triplet_of_another_passage() -> None:
    first, second, third = (ConditionTriplet(name, "", name) for name in "abc")
    cases = [Case("one", first, "q?"), Case("one", second), Case("two", third)]
    assert of_other_passages(cases) == [
        Case("one", third, "q?"),
        Case("one", third),
        Case("two", first),
    ]
    assert of_other_passages(cases[:2]) == []


def test_a_control_exchanges_condition_and_conclusion() -> None:
    assert with_fields_exchanged([Case("one", TRIPLET)]) == [
        Case("one", ConditionTriplet("A is of 1990.", "", "A; year"))
    ]
