"""A loop of RAS over two passages, with a model that says what a test wants."""

import asyncio
from collections.abc import Sequence

from benchmarks.scripted_world.scripted_engine import Script, ScriptedEngine, prompt_text
from inference.engines.contract import Completion, GenerationError, Request
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.loops.model import GraphReader
from inference.loops.ras import RasLoop, RasSettings
from inference.retrieval.passages import Passage
from models.formats.records import QuestionRecord
from tests.scripted import TitleRetriever, text_input

FILM = Passage("1", "Dawn", "Dawn is a film directed by Ana Lis.")


PERSON = Passage("2", "Ana Lis", "Ana Lis was born in Brill.")


TRIPLES = {
    "Dawn": "(S> Dawn| P> director| O> Ana Lis)",
    "Ana Lis": "(S> Ana Lis| P> place of birth| O> Brill)",
}


QUESTION = QuestionRecord("q", "Where was the director of Dawn born?", "Brill")


def good_model(request: Request) -> str:
    """Plans, answers and extracts as a perfect model would."""
    prompt = request.prompt or ""
    if prompt.startswith("extract "):
        return TRIPLES[prompt.removeprefix("extract ")]
    if prompt.startswith("You are an answerer"):
        return " Brill" if "O> Brill" in prompt else "unknown"
    if "O> Brill" in prompt:
        return "[SUFFICIENT]"
    return "[SUBQ] Where was Ana Lis born?" if "O> Ana Lis" in prompt else "[SUBQ] x"


def extract_request(passage: Passage) -> Request:
    return Request(prompt=f"extract {passage.title}")


class FailingEngine(ScriptedEngine):
    """Fails what holds one text; what holds another is under way then, and ends a little later."""

    def __init__(self, script: Script, fails: str, waits: str) -> None:
        super().__init__(script)
        self.fails, self.waits = fails, waits
        self.has_failed = asyncio.Event()
        self.running = 0

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        text = "\n".join(map(prompt_text, requests))
        self.running += 1
        try:
            if self.fails in text:
                self.has_failed.set()
                raise GenerationError("cannot be written")
            if self.waits in text:
                await asyncio.wait_for(self.has_failed.wait(), timeout=60)
                for _ in range(9):
                    await asyncio.sleep(0)
            return await super().generate(requests)
        finally:
            self.running -= 1


def make_loop(engine: ScriptedEngine, **settings: int | bool | str) -> RasLoop:
    settings = {"first_subquery": "question", **settings}
    extractor = TripleExtractor(engine, extract_request, TripleCache(None, "test"))
    return RasLoop(
        GraphReader(engine, text_input),
        TitleRetriever([FILM, PERSON]),
        extractor,
        RasSettings(**settings),  # type: ignore[arg-type]
    )
