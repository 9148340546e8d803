"""The figures of many conversations, with a model that says what a good one would."""

import os

from benchmarks.conversations import measure
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import EngineDiedError, Request
from models.formats.records import QuestionRecord
from tests.inference.local_server import listening
from tests.inference.scripted_loop import QUESTION, good_model
from tests.inference.test_serve_loops import make_server

OTHER = QuestionRecord("other", "Who directed Dawn?", "Ana Lis")


async def test_what_is_lost_and_what_is_whole() -> None:
    def dies_once_at_the_other(request: Request) -> str:
        if OTHER.question in (request.prompt or "") and not died:
            died.append(True)
            raise EngineDiedError("the process ended")
        return good_model(request)

    died: list[bool] = []
    records = [QUESTION, QUESTION, OTHER]
    async with listening(make_server(ScriptedEngine(dies_once_at_the_other))) as address:
        figures = await measure(f"{address}/v1", os.getpid(), "ras", records)
        few = await measure(f"{address}/v1", os.getpid(), "ras", records, alone=1)
    assert (few["conversations"], few["conversations_alone"]) == (3, 1)
    assert few["identical_answer_share"] == 1
    assert (figures["lost_alone"], figures["lost_at_once"]) == (1, 0)
    assert figures["mixed_up_alone"] == figures["mixed_up_at_once"] == 0
    assert figures["identical_answer_share"] == 2 / 3
    assert figures["most_memory_gib_at_once"] >= 0
    assert 0 < figures["seconds_to_first_step_at_once"] <= figures["seconds_to_end_at_once"] * 3
