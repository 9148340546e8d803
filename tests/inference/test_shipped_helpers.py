"""The chooser of topics that ships, on the real backbone, asked one question; its floor, as every
component's, is in `tests/quality`."""

import pytest

from inference.engines.contract import SHIPPED, EngineOptions
from inference.opening.components import helper_requests, open_helper
from inference.opening.engine import build_engine
from models.formats.topics import Choice, choice_prompt, parse_choice

FOLDER = SHIPPED / "helper_smollm2"
QUESTION = "Where was the director of film The Quiet Harbour born?"
TOPICS = Choice("topics", ("Biography", "Cinema", "Geography", "Medicine", "Sports"), 1, 5)


@pytest.mark.slow
async def test_the_shipped_chooser_names_the_topic_of_a_film() -> None:
    make = helper_requests(open_helper(FOLDER, "choose_topics"), "choose_topics")
    engine = build_engine(EngineOptions(kind="transformers"), adapters={"choose_topics": FOLDER})
    try:
        [done] = await engine.generate([make(choice_prompt(QUESTION, TOPICS))])
    finally:
        await engine.close()
    assert "Cinema" in parse_choice(done.text.strip(), TOPICS.names).chosen
