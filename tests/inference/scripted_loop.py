"""A loop of RAS over two passages, with a model that says what a test wants."""

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import Request
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


def make_loop(engine: ScriptedEngine, **settings: int | bool | str) -> RasLoop:
    settings = {"first_subquery": "question", **settings}
    extractor = TripleExtractor(engine, extract_request, TripleCache(None, "test"))
    return RasLoop(
        GraphReader(engine, text_input),
        TitleRetriever([FILM, PERSON]),
        extractor,
        RasSettings(**settings),  # type: ignore[arg-type]
    )
