"""The helpers that ship, on the real backbone: each does its step of a question."""

from collections.abc import Callable

import pytest

from inference.components import SHIPPED, helper_requests, open_helper
from inference.engines.contract import Request
from inference.engines.open_engine import build_engine
from inference.engines.options import EngineOptions
from models.formats.decomposer import decompose_prompt
from models.formats.gap_judge import gap_prompt
from models.formats.query_triplets import QueryTriplet
from models.formats.records import HelperTask
from models.formats.resolver import resolve_prompt
from models.formats.topic_choice import Choice, choice_prompt, parse_choice
from models.formats.triples import Triple

TASKS: tuple[HelperTask, ...] = ("decompose", "resolve", "judge_gap", "choose_topics")
QUESTION = "Where was the director of film The Quiet Harbour born?"
OPEN = QueryTriplet("The Quiet Harbour", "director", "?a")
SILENT = QueryTriplet("Ana Lindqvist", "spouse", "?")
DIRECTOR = Triple("The Quiet Harbour", "director", "Ana Lindqvist")
BIRTHPLACE = Triple("Ana Lindqvist", "place of birth", "Uppsala")
PASSAGE = "The Quiet Harbour: The Quiet Harbour is a 1961 Swedish film directed by Ana Lindqvist."
TOPICS = Choice("topics", ("Biography", "Cinema", "Geography", "Medicine", "Sports"), 1, 5)


@pytest.mark.slow
async def test_each_shipped_helper_does_its_step() -> None:
    folders = {task: SHIPPED / f"{task}_smollm2" for task in TASKS}
    engine = build_engine(EngineOptions(kind="transformers"), adapters=folders)
    make = {task: helper_requests(open_helper(folders[task], task)) for task in TASKS}
    asked: list[tuple[Callable[[str], Request], str]] = [
        (make["decompose"], decompose_prompt(QUESTION)),
        (make["resolve"], resolve_prompt(OPEN, [PASSAGE])),
        (make["resolve"], resolve_prompt(SILENT, [PASSAGE])),
        (make["judge_gap"], gap_prompt(QUESTION, [DIRECTOR])),
        (make["judge_gap"], gap_prompt(QUESTION, [DIRECTOR, BIRTHPLACE])),
        (make["choose_topics"], choice_prompt(QUESTION, TOPICS)),
    ]
    try:
        done = await engine.generate([request(prompt) for request, prompt in asked])
    finally:
        await engine.close()
    decomposed, filled, nothing, missing, enough, chosen = (one.text.strip() for one in done)
    assert decomposed == "The Quiet Harbour | director | ?a\n?a | place of birth | ?"
    assert filled == "The Quiet Harbour | director | Ana Lindqvist"
    assert nothing == "nothing"
    assert missing == "Ana Lindqvist | place of birth | ?"
    assert enough == "enough"
    assert "Cinema" in parse_choice(chosen, TOPICS.names).chosen
