"""The OpenAI-compatible server over a real engine, by the openai client and by raw HTTP."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import openai
import pytest
import pytest_asyncio
import torch
from aiohttp import ClientSession

from inference.engines.contract import Completion, Constraint, Request, Sampling
from inference.engines.openai import OpenAIEngine
from inference.engines.transformers.decoding import CausalDecoder
from inference.engines.transformers.engine import TransformersEngine
from inference.serving.server import ModelServer, Served, model_names
from models.formats.triples import Triple, parse_triples
from tests.components import (
    CHAT_TEMPLATE,
    ras_component,
    stirred_backbone,
    t2t_component,
    tri_rag_component,
)
from tests.inference.local_server import listening
from tests.tiny import tiny_tokenizer

KEY = "a key of this test"
MAX_BODY_BYTES = 200_000
USER_FIRST = (
    "{% if messages[0]['role'] == 'assistant' %}{{ raise_exception('user first') }}{% endif %}"
)
GRAPHS = [[["Ada", "knows", "Ben"], ["Ben", "born in", "Rome"]], [["Rome", "in", " Italy\n"]]]
TRIPLES = (
    (Triple("Ada", "knows", "Ben"), Triple("Ben", "born in", "Rome")),
    (Triple("Rome", "in", "Italy"),),
)
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 10, "maximum": 99}},
    "required": ["n"],
    "additionalProperties": False,
}
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> TransformersEngine:
    folder = tmp_path_factory.mktemp("serve")
    backbone = stirred_backbone(folder / "tiny")
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = USER_FIRST + CHAT_TEMPLATE
    tokenizer.save_pretrained(backbone)
    adapters = {
        "ras": ras_component(folder / "ras", backbone, stirred=0.2),
        "t2t": t2t_component(folder / "t2t", backbone, stirred=0.3),
        "soft": tri_rag_component(folder / "soft", backbone, "soft_prompt"),
    }
    return TransformersEngine(str(backbone), adapters, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def server(engine: TransformersEngine) -> ModelServer:
    names = model_names("tiny", ["ras", "t2t", "soft"])
    served = Served(
        triples={"t2t": lambda passage: Request(prompt=f"{passage.title} {passage.text}")}
    )
    return ModelServer(engine, names, api_key=KEY, max_body_bytes=MAX_BODY_BYTES, served=served)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(server: ModelServer) -> AsyncIterator[str]:
    async with listening(server) as address:
        yield address
    await server.engine.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(address: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        yield session


async def own(engine: TransformersEngine, *requests: Request) -> list[str]:
    """What the engine itself answers."""
    return [done.text for done in await engine.generate(requests)]


async def test_models(client: openai.AsyncOpenAI) -> None:
    listed = [(model.id, model.parent) async for model in client.models.list()]
    assert listed == [("tiny", None), ("ras", "tiny"), ("t2t", "tiny"), ("soft", "tiny")]


async def test_every_form_of_prompt(client: openai.AsyncOpenAI, engine: TransformersEngine) -> None:
    sampling = Sampling(12)
    texts, ids = ("Once", "There was a dog"), ((1, 9, 30), (1, 77))
    expected = await own(
        engine,
        *(Request(prompt=text, sampling=sampling) for text in texts),
        *(Request(input_ids=each, sampling=sampling) for each in ids),
    )
    assert len(set(expected)) == 4
    prompts = [texts[0], texts, ids[0], ids]
    answers = [
        await client.completions.create(model="tiny", prompt=prompt, max_tokens=12, temperature=0)
        for prompt in prompts
    ]
    written = [[choice.text for choice in answer.choices] for answer in answers]
    assert written == [expected[:1], expected[:2], expected[2:3], expected[2:]]
    several = answers[1]
    assert [choice.index for choice in several.choices] == [0, 1]
    assert (several.object, several.model, several.choices[0].finish_reason) == (
        "text_completion",
        "tiny",
        "length",
    )
    usage = several.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (21, 24, 45)


async def test_a_chat(client: openai.AsyncOpenAI, engine: TransformersEngine) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    sampling = Sampling(9, logprobs=True)
    [expected] = await engine.generate([Request(messages=tuple(messages), sampling=sampling)])
    answer = await client.chat.completions.create(
        model="tiny", messages=messages, max_completion_tokens=9, temperature=0, logprobs=True
    )
    choice = answer.choices[0]
    assert choice.message.content == expected.text
    assert choice.finish_reason == expected.finish_reason
    listed = choice.logprobs.content
    assert [each.logprob for each in listed] == pytest.approx(expected.logprobs)
    assert [each.token for each in listed] == [f"token_id:{t}" for t in expected.token_ids]
    assert answer.usage.prompt_tokens == expected.input_tokens


async def test_sampling_is_passed_on(
    client: openai.AsyncOpenAI, engine: TransformersEngine
) -> None:
    sampling = Sampling(30, temperature=0.9, top_p=0.8, seed=3)
    [full] = await own(engine, Request(prompt="Dice", sampling=sampling))
    stop = full[4:6]
    [expected] = await own(engine, Request(prompt="Dice", sampling=replace(sampling, stop=(stop,))))
    options: dict[str, Any] = {"max_tokens": 30, "temperature": 0.9, "top_p": 0.8, "seed": 3}
    for form in (stop, [stop]):
        answer = await client.completions.create(
            model="tiny", prompt="Dice", stop=form, logprobs=0, **options
        )
        choice = answer.choices[0]
        assert (choice.text, choice.finish_reason) == (expected, "stop")
        assert len(choice.logprobs.token_logprobs) == answer.usage.completion_tokens
    # What OpenAI's protocol has for a request that does not say.
    bare = await client.completions.create(model="tiny", prompt="Dice", seed=3)
    default = Sampling(temperature=1.0, seed=3)
    assert [bare.choices[0].text] == await own(engine, Request(prompt="Dice", sampling=default))


async def test_an_adapter_is_a_model(address: str, engine: TransformersEngine) -> None:
    prompts = [f"Passage {number}." for number in range(6)]
    for adapter in ("ras", "t2t", "soft"):
        requests = [Request(prompt=prompt, sampling=Sampling(8)) for prompt in prompts]
        local = [replace(request, adapter=adapter) for request in requests]
        teacher = OpenAIEngine(adapter, f"{address}/v1", KEY, completion=True)
        done = await teacher.generate(requests)
        assert [one.text for one in done] == await own(engine, *local)
        assert [one.text for one in done] != await own(engine, *requests)
        await teacher.close()


async def test_graphs_and_soft_prompts(
    client: openai.AsyncOpenAI, engine: TransformersEngine
) -> None:
    base = Request(prompt="Who?", adapter="ras", sampling=Sampling(16))
    cases = [
        ({}, base),
        ({"subgraphs": []}, base),
        ({"subgraphs": GRAPHS}, replace(base, subgraphs=TRIPLES)),
        ({"subgraphs": GRAPHS[1:]}, replace(base, subgraphs=TRIPLES[1:])),
        ({"soft_prompt": "soft"}, replace(base, soft_prompt="soft")),
        (
            {"soft_prompt": "soft", "subgraphs": GRAPHS},
            replace(base, soft_prompt="soft", subgraphs=TRIPLES),
        ),
    ]
    expected = await own(engine, *(request for _, request in cases))
    assert len(set(expected)) == 5
    for (extra, _), text in zip(cases, expected, strict=True):
        answer = await client.completions.create(
            model="ras", prompt="Who?", max_tokens=16, temperature=0, extra_body=extra
        )
        assert answer.choices[0].text == text


async def test_an_output_is_held(client: openai.AsyncOpenAI, engine: TransformersEngine) -> None:
    regex = r"(yes|no): [a-z]{3,9}\."
    named = {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA}}
    by_schema = Constraint(json_schema=json.dumps(SCHEMA))
    any_object = Constraint(json_schema='{"type": "object"}')
    grammar = 'start: "a"+ "."'
    cases = [
        ({"structured_outputs": {"regex": regex}}, Constraint(regex=regex)),
        ({"structured_outputs": {"json": SCHEMA}}, by_schema),
        ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, by_schema),
        ({"structured_outputs": {"grammar": grammar}}, Constraint(grammar=grammar)),
        ({"response_format": named}, by_schema),
        ({"response_format": {"type": "json_object"}}, any_object),
        ({"response_format": {"type": "text"}}, None),
    ]  # fmt: skip
    base = Request(prompt="Is it?", sampling=Sampling(40))
    for extra, constraint in cases:
        answer = await client.completions.create(
            model="tiny", prompt="Is it?", max_tokens=40, temperature=0, extra_body=extra
        )
        text = answer.choices[0].text
        assert [text] == await own(engine, replace(base, constraint=constraint))
        if constraint == by_schema:
            assert 10 <= json.loads(text)["n"] <= 99
    chat = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "n?"}], response_format=named
    )
    assert 10 <= json.loads(chat.choices[0].message.content)["n"] <= 99


REFUSED: list[tuple[dict[str, Any], int, str | None, str]] = [
    ({"prompt_embeds": "AAAA"}, 400, "prompt_embeds", "no tensors.*triples"),
    ({"graph_embeddings": [[0.5]]}, 400, "graph_embeddings", "no tensors"),
    ({"prompt_logprobs": 1}, 400, "prompt_logprobs", "only generated tokens"),
    ({"echo": True}, 400, "echo", "only False"),
    ({"stream": True, "logprobs": 0}, 400, "logprobs", "not in a stream"),
    ({"n": 2}, 400, "n", "only 1 .*several times"),
    ({"best_of": 3}, 400, "best_of", "only 1"),
    ({"logit_bias": {"5": 9}}, 400, "logit_bias", "structured_outputs"),
    ({"frequency_penalty": 0.1}, 400, "frequency_penalty", "only 0"),
    ({"presence_penalty": -1}, 400, "presence_penalty", "only 0"),
    ({"top_k": 5}, 400, "top_k", "leave it out"),
    ({"never_heard_of": 0}, 400, "never_heard_of", "leave it out"),
    ({"model": "gone"}, 404, "model", "'gone'.*tiny, ras, t2t, soft"),
    ({"model": None}, 400, "model", "GET /v1/models"),
    ({"soft_prompt": "gone"}, 400, "soft_prompt", "'gone'.*soft"),
    ({"soft_prompt": "tiny"}, 400, "soft_prompt", "'tiny'"),
    ({"soft_prompt": "t2t"}, 400, None, "'t2t' has no soft prompt"),
    ({"subgraphs": GRAPHS}, 400, None, "subgraphs"),
    ({"subgraphs": [[["a", "b"]]]}, 400, "subgraphs", r"subgraphs\[0\]\[0\]\[2\].*predicate"),
    ({"subgraphs": [[["a", "b", "  "]]]}, 400, "subgraphs", "no field empty"),
    ({"prompt": "x" * 5000}, 400, "prompt", "5001 tokens.*128.*4096.*lower max_tokens"),
    ({"max_tokens": 4096}, 400, "prompt", "4096 new.*4096.*max_tokens"),
    ({"prompt": []}, 400, "prompt", "a text, token ids"),
    ({"prompt": ["x"] * 1025}, 400, "prompt", "1 to 1024"),
    ({"prompt": ["x", 5]}, 400, "prompt", "a text, token ids"),
    ({"prompt": [1, 259]}, 400, None, "prompt hold 259.*0 to 258"),
    ({"prompt": [1, -1]}, 400, None, "0 to 258"),
    ({"prompt": [True]}, 400, "prompt", "a text, token ids"),
    ({"max_tokens": 0}, 400, "max_tokens", "greater than or equal to 1"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, 400, "max_tokens", "one of them"),
    ({"temperature": -1}, 400, "temperature", "equal to 0"),
    ({"temperature": 1e-9}, 400, "temperature", "0.01"),
    ({"temperature": 2.5}, 400, "temperature", "equal to 2"),
    ({"top_p": 0}, 400, "top_p", "greater than 0"),
    ({"seed": 2**64}, 400, "seed", "less than"),
    ({"stop": list("abcde")}, 400, "stop", "at most 4"),
    ({"stop": ""}, 400, "stop", "none of them empty"),
    ({"logprobs": 5}, 400, "logprobs", "0 in completions"),
    ({"structured_outputs": {}}, 400, "structured_outputs", "exactly one"),
    ({"structured_outputs": {"regex": "a", "json": {}}}, 400, "structured_outputs", "exactly one"),
    ({"structured_outputs": {"choice": ["a"]}}, 400, "structured_outputs", "regex"),
    ({"structured_outputs": {"regex": "("}}, 400, None, "malformed"),
    ({"structured_outputs": {"json": "{"}}, 400, None, "not JSON"),
    ({"response_format": {"type": "xml"}}, 400, "response_format", "json_schema"),
    ({"response_format": {"type": "json_schema"}}, 400, "response_format", "schema"),
    ({"deadline_seconds": 0}, 400, "deadline_seconds", "greater than 0"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "status", "param", "message"), REFUSED)
async def test_what_is_refused_is_named(
    address: str,
    session: ClientSession,
    change: dict[str, Any],
    status: int,
    param: str | None,
    message: str,
) -> None:
    body = {"model": "tiny", "prompt": "x", "max_tokens": 128} | change
    async with session.post(f"{address}/v1/completions", json=body) as response:
        error = (await response.json())["error"]
        assert (response.status, error["param"]) == (status, param), error
        assert error["type"] == "invalid_request_error"
        assert re.search(message, error["message"], re.DOTALL)


async def test_what_changes_nothing_is_taken(address: str, session: ClientSession) -> None:
    neutral: dict[str, Any] = {
        "n": 1,
        "stream": False,
        "echo": None,
        "logit_bias": {},
        "frequency_penalty": 0.0,
    }
    body = {"model": "tiny", "prompt": "x", "max_tokens": 1, "user": "me", **neutral}
    async with session.post(f"{address}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()


async def test_chats_that_are_refused(address: str, session: ClientSession) -> None:
    user = {"role": "user", "content": "x"}
    parts = {"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}
    cases = [
        ({"messages": []}, "messages", "a list"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages", r"messages\[0\].*role"),
        ({"messages": [user, parts]}, "messages", r"\[1\]"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, None, "template.*user first"),
        ({"messages": [user], "model": "t2t"}, None, "trained on prompts"),
        ({"messages": [{"role": "user", "content": "x" * 5000}]}, "messages", "4096"),
        ({"messages": [user], "top_logprobs": 3}, "top_logprobs", "only the chosen"),
        ({"messages": [user], "tools": [{"type": "function"}]}, "tools", "structured_outputs"),
        ({"prompt": "x"}, "messages", "a list"),
    ]  # fmt: skip
    for change, param, message in cases:
        body = {"model": "tiny", **change}
        async with session.post(f"{address}/v1/chat/completions", json=body) as response:
            error = (await response.json())["error"]
            assert (response.status, error["param"]) == (400, param), error
            assert re.search(message, error["message"], re.DOTALL)


@pytest.mark.parametrize(
    ("data", "content_type", "status", "message"),
    [
        (b"{", "application/json", 400, "not JSON"),
        (b"", "application/json", 400, "not JSON"),
        (b"[1]", "application/json", 400, "no JSON object"),
        (b'{"prompt": "\\ud800"}', "application/json", 400, "not JSON"),
        (b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}", "application/json", 400, "not JSON"),
        (b"{}", "text/plain", 415, "Content-Type: application/json"),
        (b'"' + b"x" * MAX_BODY_BYTES + b'"', "application/json", 413, f"above {MAX_BODY_BYTES}"),
    ],
)
async def test_bodies_that_are_none(
    address: str,
    session: ClientSession,
    data: bytes,
    content_type: str,
    status: int,
    message: str,
) -> None:
    headers = {"Content-Type": content_type}
    async with session.post(f"{address}/v1/completions", data=data, headers=headers) as response:
        assert response.status == status
        assert message in (await response.json())["error"]["message"]


async def test_paths_and_methods_that_are_none(address: str, session: ClientSession) -> None:
    async with session.get(f"{address}/v1/embeddings") as response:
        assert response.status == 404
        assert "/v1/embeddings" in (await response.json())["error"]["message"]
    async with session.get(f"{address}/v1/completions") as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST")


async def test_a_deadline_by_field_and_by_header(address: str, session: ClientSession) -> None:
    body = {"model": "tiny", "prompt": "On", "max_tokens": 3000, "temperature": 0}
    cases = [
        ({"deadline_seconds": 0.01}, {}),
        ({}, {"X-Deadline-Seconds": "0.01"}),
        ({"deadline_seconds": 60}, {"X-Deadline-Seconds": "0.01"}),
    ]
    for extra, headers in cases:
        async with session.post(
            f"{address}/v1/completions", json=body | extra, headers=headers
        ) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"]) == (504, "deadline_exceeded")
            assert "0.01 seconds" in error["message"]
            # OpenAI's client would otherwise ask again, and wait as long again.
            assert response.headers["x-should-retry"] == "false"
    headers = {"X-Deadline-Seconds": "soon"}
    async with session.post(f"{address}/v1/completions", json=body, headers=headers) as response:
        assert response.status == 400
        assert (await response.json())["error"]["param"] == "X-Deadline-Seconds"


async def test_the_key(address: str, caplog: pytest.LogCaptureFixture) -> None:
    wrong = ["", f"Basic {KEY}", "Bearer", "Bearer wrong-key", f"Bearer {KEY}x", "Bearer \xe9"]
    async with ClientSession() as session:
        for given in wrong:
            headers = {"Authorization": given}
            async with session.get(f"{address}/v1/models", headers=headers) as response:
                assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")
                answer = await response.text()
                assert json.loads(answer)["error"]["code"] == "invalid_api_key"
                assert "wrong-key" not in answer
        async with session.get(f"{address}/health") as response:
            assert response.status == 200
    assert KEY not in caplog.text
    assert "wrong-key" not in caplog.text


async def test_64_clients_get_what_they_get_alone(
    client: openai.AsyncOpenAI, engine: TransformersEngine
) -> None:
    engine.batcher.batch_sizes.clear()
    bodies = [
        {
            "model": ("tiny", "ras", "t2t", "soft")[number % 4],
            "prompt": f"Passage {number // 8}. " + "It rained. " * (number % 5),
            "max_tokens": 4 + number % 9,
            "temperature": (0.0, 0.8)[number % 3 == 0],
            "seed": number,
        }
        for number in range(64)
    ]
    together = await asyncio.gather(*(client.completions.create(**body) for body in bodies))
    assert max(engine.batcher.batch_sizes) > 1
    for body, answer in list(zip(bodies, together, strict=True))[::4]:
        alone = await client.completions.create(**body)
        assert alone.choices[0].text == answer.choices[0].text


async def test_components_stream(client: openai.AsyncOpenAI) -> None:
    prompts = ["Once", "There was a dog"]
    body = {"model": "ras", "prompt": prompts, "max_tokens": 12, "temperature": 0}
    whole = await client.completions.create(**body)
    texts, ends, usage = ["", ""], [None, None], None
    options = {"stream": True, "stream_options": {"include_usage": True}}
    async for chunk in await client.completions.create(**body, **options):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            ends[choice.index] = choice.finish_reason or ends[choice.index]
    assert texts == [choice.text for choice in whole.choices]
    assert ends == [choice.finish_reason for choice in whole.choices]
    assert usage == whole.usage


async def test_chats_stream(client: openai.AsyncOpenAI) -> None:
    body: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Who?"}],
        "max_tokens": 12,
        "temperature": 0,
    }
    whole = await client.chat.completions.create(**body)
    chunks = [chunk async for chunk in await client.chat.completions.create(**body, stream=True)]
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].usage == whole.usage and len(chunks) > 4


async def test_what_is_refused_before_a_stream_begins(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="context holds"):
        await client.completions.create(model="tiny", prompt="a " * 3000, max_tokens=9, stream=True)


async def test_a_stream_that_is_cut_leaves_the_engine_free(
    session: ClientSession,
    address: str,
    engine: TransformersEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine waits in the middle, or it might be done before this busy process has looked."""
    steps, gate, step = count(), threading.Event(), CausalDecoder.step

    def held_step(decoder: CausalDecoder, token_ids: torch.Tensor) -> torch.Tensor:
        if next(steps) > 20:
            gate.wait(60)
        return step(decoder, token_ids)

    monkeypatch.setattr(CausalDecoder, "step", held_step)
    body = {"model": "tiny", "prompt": "On and on", "max_tokens": 1500, "stream": True}
    try:
        response = await session.post(f"{address}/v1/completions", json=body)
        assert (await response.content.readline()).startswith(b"data: ")
        assert engine.batcher.unfinished == 1
        response.close()
    finally:
        gate.set()
    async with asyncio.timeout(60):
        while engine.batcher.unfinished:
            await asyncio.sleep(0.01)


async def test_triples_of_texts(
    session: ClientSession, address: str, engine: TransformersEngine
) -> None:
    texts = ["Dawn is a film.", " ", {"title": "Dawn", "text": "It is a film."}]
    expected = [
        parse_triples(text)
        for text in await own(
            engine,
            Request(prompt=" Dawn is a film.", adapter="t2t"),
            Request(prompt="Dawn It is a film.", adapter="t2t"),
        )
    ]
    body = {"model": "t2t", "input": texts}
    async with session.post(f"{address}/v1/triples", json=body) as response:
        answer = await response.json()
    assert [row["index"] for row in answer["data"]] == [0, 1, 2]
    found = [(row["triples"], row["malformed"]) for row in answer["data"]]
    told = [([list(vars(t).values()) for t in p.triples], p.malformed) for p in expected]
    assert found == [told[0], ([], 0), told[1]]
    assert answer["usage"]["completion_tokens"] > 0
    for wrong, status, param in (
        ({"model": "ras", "input": "x"}, 404, "model"),
        ({"model": "t2t", "input": []}, 400, "input"),
        ({"model": "t2t", "input": [{"txt": "x"}]}, 400, "input"),
        ({"model": "t2t", "input": "x", "deadline_seconds": 0}, 400, "deadline_seconds"),
    ):
        async with session.post(f"{address}/v1/triples", json=wrong) as response:
            assert (response.status, (await response.json())["error"]["param"]) == (status, param)


async def test_triples_have_a_deadline_too(
    session: ClientSession, address: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    body: dict[str, Any] = {"model": "t2t", "input": ["Dawn is a film.", " ", "It is."]}
    asked: list[Request] = []
    generate = server.engine.generate

    async def noted(requests: Sequence[Request]) -> list[Completion]:
        asked.extend(requests)
        return await generate(requests)

    monkeypatch.setattr(server.engine, "generate", noted)
    monkeypatch.setattr(server, "_deadline_seconds", 50.0)
    for extra, headers, expected in (
        ({}, {}, 50.0),
        ({}, {"X-Deadline-Seconds": "40"}, 40.0),
        ({"deadline_seconds": 30}, {"X-Deadline-Seconds": "40"}, 30.0),
        ({"deadline_seconds": 60}, {}, 50.0),
    ):
        asked.clear()
        async with session.post(
            f"{address}/v1/triples", json=body | extra, headers=headers
        ) as response:
            assert response.status == 200, await response.text()
        assert [request.deadline_seconds for request in asked] == [expected] * 2
    for headers, status, code in (
        ({"X-Deadline-Seconds": "0.001"}, 504, "deadline_exceeded"),
        ({"X-Deadline-Seconds": "soon"}, 400, "invalid_value"),
    ):
        async with session.post(f"{address}/v1/triples", json=body, headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (status, code)
