"""What is made perfect takes the annotation's place, and nothing else changes."""

from benchmarks.perfect_extraction import PerfectedLoop, annotated_facts
from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.engines.contract import Request
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.loops.model import GraphReader
from inference.loops.ras import RasLoop, RasSettings
from inference.loops.trace import Trace
from inference.retrieval.passages import Passage
from inference.runs.scores import GoldPassages
from models.formats.passages import context_passages
from models.formats.records import QuestionRecord
from tests.data_gen.test_build_commands import question
from tests.scripted import TitleRetriever, text_input

RECORD = QuestionRecord.from_json(question(1))
CORPUS = [Passage(p.id, p.title, p.text) for p in context_passages(RECORD)]


def blind(request: Request) -> str:
    """Extract nothing, plan nothing sensible, answer what the prompt holds."""
    prompt = request.prompt or ""
    if prompt.startswith("You are a planner"):
        return "[SUBQ] What about lakes?"
    return "Montreal" if "O> Montreal" in prompt else "unknown"


async def answer(*perfect: str) -> Trace:
    engine = ScriptedEngine(blind)
    extractor = TripleExtractor(engine, lambda p: Request(prompt=p.text), TripleCache(None, "none"))
    settings = RasSettings(top_k=1, first_subquery="question")
    loop = RasLoop(GraphReader(engine, text_input), TitleRetriever(CORPUS), extractor, settings)
    by_id = {passage.id: passage for passage in CORPUS}
    own = PerfectedLoop(loop, perfect, annotated_facts([RECORD]), GoldPassages(CORPUS), by_id)
    return await own.answer(RECORD)


async def test_without_annotation_nothing_is_found() -> None:
    trace = await answer("none")
    assert trace.answer == "unknown" and not trace.graph


async def test_planning_asks_for_each_step() -> None:
    trace = await answer("planning")
    asked = [step.subquery for step in trace.steps]
    assert asked == [RECORD.question, "Who directed Zone 1?", "Where was Denys Roe born?"]
    assert trace.answer == "unknown"


async def test_extraction_alone_tells_what_was_retrieved() -> None:
    trace = await answer("extraction", "planning")
    assert trace.answer == "Montreal"
    assert [fact.object for fact in trace.graph] == ["Denys Roe", "Montreal"]


async def test_retrieval_brings_all_supporting_passages() -> None:
    trace = await answer("retrieval")
    titles = {passage.title for passage in trace.steps[0].passages}
    assert titles >= {"Zone 1", "Denys Roe"}
    assert (await answer("retrieval", "extraction")).answer == "Montreal"
