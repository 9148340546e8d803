"""The components that ship reach their floors; what was not trained does not."""

import pytest

from inference.engines.contract import EngineOptions
from inference.opening.engine import build_engine
from tests.quality.shipped import (
    FLOORS,
    measure,
    shipped_folders,
    shortfalls,
    spans_pointed_at,
    trials,
)


def test_every_component_has_a_floor_and_its_labels_are_above_it() -> None:
    asked = trials()
    assert asked.keys() == FLOORS.keys() == shipped_folders().keys()
    for name, trial in asked.items():
        scores = trial.score(trial.labels)
        assert {measure: scores[measure] for measure in FLOORS[name]} == dict.fromkeys(
            FLOORS[name], 1.0
        )


@pytest.mark.parametrize("name", FLOORS)
def test_no_text_that_is_always_the_same_reaches_the_floor(name: str) -> None:
    trial = trials()[name]
    for text in {"", "I do not know.", *trial.labels}:
        below = shortfalls(name, trial.score([text] * len(trial.labels)))
        assert below, text


@pytest.mark.parametrize("name", FLOORS)
def test_the_right_texts_for_other_records_do_not_reach_the_floor(name: str) -> None:
    trial = trials()[name]
    shifted = [*trial.labels[1:], trial.labels[0]]
    assert shortfalls(name, trial.score(shifted)), shifted


@pytest.mark.slow
@pytest.mark.exhaustive
async def test_every_component_reaches_its_floor() -> None:
    engine = build_engine(EngineOptions(kind="transformers"), adapters=shipped_folders())
    try:
        scores = await measure(engine, trials())
    finally:
        await engine.close()
    assert {name: low for name, own in scores.items() if (low := shortfalls(name, own))} == {}


def test_the_extractive_reader_reaches_the_floor_of_reading() -> None:
    texts, scores = spans_pointed_at()
    assert shortfalls("read", scores) == {}, texts
