"""Loops behind OpenAI's protocol: the openai client, streams, sources, conversations, limits."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from aiohttp import ClientResponse, ClientSession

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.documents.own_corpus import Place
from inference.engines.contract import (
    Completion,
    EngineDiedError,
    Health,
    PromptTooLongError,
    Request,
)
from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Passage
from inference.serving.conversation import shortened
from inference.serving.loop_chats import Chunk, LoopChat, sources_of
from inference.serving.passages import CitedPassages, by_id
from inference.serving.server import ModelServer, Served, model_names
from tests.inference.local_server import listening
from tests.inference.scripted_loop import FILM, PERSON, good_model, make_loop

QUESTION = "Where was the director of Dawn born?"
KEY = "a key"
TITLE_TASK = "### Task:\nGenerate a concise, 3-5 word title with an emoji.\n### Chat History:\nx"


def make_server(
    engine: Any, loops: Mapping[str, Any] | None = None, key: str | None = None, **settings: Any
) -> ModelServer:
    passages = CitedPassages(by_id([[FILM, PERSON]]), {"1": Place("films.pdf", 3)}, key)
    loops = loops or {"ras": make_loop(engine)}
    served = Served(loops, passages)
    names = model_names("tiny", ["ras", "t2t"])
    return ModelServer(engine, names, key, served=served, **settings)


@asynccontextmanager
async def asking(server: ModelServer, key: str = "none") -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        listening(server) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as client,
    ):
        yield client


def user(*contents: str) -> list[Any]:
    """A conversation, in turn of the user and the assistant."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(contents)]


@asynccontextmanager
async def posted(address: str, body: Mapping[str, Any]) -> AsyncIterator[ClientResponse]:
    async with (
        ClientSession() as session,
        session.post(f"{address}/v1/chat/completions", json=body) as response,
    ):
        yield response


async def events(address: str, body: Mapping[str, Any]) -> list[Any]:
    """Every object of a stream, the mark at its end included."""
    async with posted(address, body) as response:
        assert response.status == 200 and response.content_type == "text/event-stream"
        text = (await response.read()).decode()
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def test_loops_are_listed_beside_components_and_share_their_names() -> None:
    async with asking(make_server(ScriptedEngine(good_model))) as client:
        listed = [(m.id, m.kind, m.parent) async for m in client.models.list()]
        assert listed == [
            ("tiny", "backbone", None),
            ("ras", "loop", "tiny"),
            ("t2t", "component", "tiny"),
        ]
        done = await client.completions.create(model="ras", prompt="extract Dawn")
        assert done.choices[0].text == good_model(Request(prompt="extract Dawn"))


async def test_an_answer_with_its_steps_and_sources() -> None:
    engine = ScriptedEngine(good_model)
    async with asking(make_server(engine)) as client:
        done = await client.chat.completions.create(model="ras", messages=user(QUESTION))
        message = done.choices[0].message
        assert (message.content, done.choices[0].finish_reason) == ("Brill", "stop")
        assert message.reasoning_content.splitlines() == [
            f"1. {QUESTION}",
            "found: Dawn",
            "- Dawn | director | Ana Lis",
            "decided: [SUBQ] Where was Ana Lis born?",
            "2. Where was Ana Lis born?",
            "found: Ana Lis",
            "- Ana Lis | place of birth | Brill",
            "decided: [SUFFICIENT]",
        ]
        sources = [each.url_citation for each in message.annotations]
        assert [source.title for source in sources] == ["Ana Lis", "Dawn"]
        assert sources[0].content == PERSON.text
        assert (sources[0].start_index, sources[0].end_index) == (0, len("Brill"))
        assert done.trace["answer"] == "Brill" and len(done.trace["steps"]) == 2
        assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
        assert done.usage.bill["llm_calls"] == len(engine.requests)
        async with ClientSession() as session, session.get(sources[0].url) as response:
            page = await response.text()
            assert response.status == 200 and f"<mark>{PERSON.text}</mark>" in page


async def test_a_stream_tells_the_same_step_by_step() -> None:
    server = make_server(ScriptedEngine(good_model))
    body = {"model": "ras", "messages": user(QUESTION)}
    async with asking(server) as client:
        whole = await client.chat.completions.create(**body)
        chunks = [c async for c in await client.chat.completions.create(**body, stream=True)]
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert "".join(d.content or "" for d in deltas) == whole.choices[0].message.content
    told = [(c.step["number"], len(c.step["triples"]), c.step["decision"]) for c in chunks
            if hasattr(c, "step")]  # fmt: skip
    assert told == [
        (1, 1, ""),
        (1, 1, "[SUBQ] Where was Ana Lis born?"),
        (2, 1, ""),
        (2, 1, "[SUFFICIENT]"),
    ]
    reasoning = "".join(getattr(d, "reasoning_content", "") for d in deltas)
    assert reasoning == whole.choices[0].message.reasoning_content
    [sources] = [d.annotations for d in deltas if hasattr(d, "annotations")]
    expected = whole.choices[0].message.annotations
    urls = [source["url_citation"]["url"].split("/passages")[1] for source in sources]
    assert urls == [each.url_citation.url.split("/passages")[1] for each in expected]
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.prompt_tokens == chunks[-1].trace["bill"]["input_tokens"] > 0
    assert chunks[-1].trace["steps"] == whole.trace["steps"]
    assert len({chunk.id for chunk in chunks}) == 1


async def test_usage_stands_alone_where_a_client_asks_for_it() -> None:
    server = make_server(ScriptedEngine(good_model))
    body = {"model": "ras", "messages": user(QUESTION), "stream": True}
    async with listening(server) as address:
        told = await events(address, {**body, "stream_options": {"include_usage": True}})
        assert told[-1] == "[DONE]"
        assert told[-2]["choices"] == [] and told[-2]["usage"]["total_tokens"] > 0
        assert "trace" in told[-3] and not any("usage" in each for each in told[:-2])


async def test_evidence_without_an_answer() -> None:
    engine = ScriptedEngine(good_model)
    body = {"model": "ras", "messages": user(QUESTION), "extra_body": {"evidence_only": True}}
    async with asking(make_server(engine)) as client:
        done = await client.chat.completions.create(**body)
        chunks = [c async for c in await client.chat.completions.create(**body, stream=True)]
    assert not any((r.prompt or "").startswith("You are an answerer") for r in engine.requests)
    evidence = done.evidence
    assert [(p["title"], p["text"], p["step"]) for p in evidence["passages"]] == [
        ("Dawn", FILM.text, 1),
        ("Ana Lis", PERSON.text, 2),
    ]
    assert evidence["triples"][1] == {
        "subject": "Ana Lis", "predicate": "place of birth", "object": "Brill",
        "passage": "2", "sentence": PERSON.text,
    }  # fmt: skip
    content = done.choices[0].message.content
    assert PERSON.text in content and "place of birth" in content
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == content
    assert chunks[-1].evidence["triples"] == evidence["triples"]
    assert done.trace["answer"] == ""


async def test_a_client_s_own_calls_go_to_the_backbone() -> None:
    engine = ScriptedEngine(lambda request: "🎬 A Film" if request.messages else "")
    for body in (
        {"messages": user(TITLE_TASK)},
        {"messages": user("Name this chat."), "metadata": {"task": "title_generation"}},
    ):
        async with asking(make_server(engine)) as client:
            done = await client.chat.completions.create(model="ras", **body)
            assert (done.choices[0].message.content, done.model) == ("🎬 A Film", "ras")
            assert engine.requests.pop().messages == tuple(body["messages"])


async def test_a_conversation_of_open_webui() -> None:
    """The bodies that Open WebUI 0.12 sends for one question, and what it reads of the answer."""
    server = make_server(ScriptedEngine(good_model))
    body = {
        "stream": True,
        "model": "ras",
        "messages": [
            {"role": "system", "content": "Answer in short."},
            {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
        ],
        "max_tokens": 512,
        "temperature": 0.8,
        "stream_options": {"include_usage": True},
    }
    usage: dict[str, Any] = {}
    reasoning, content, sources = "", "", []
    async with listening(server) as address:
        for data in (await events(address, body))[:-1]:
            usage = data.get("usage") or usage
            if not data["choices"]:
                assert "error" not in data
                continue
            delta = data["choices"][0].get("delta", {})
            sources += [a["url_citation"]["url"] for a in delta.get("annotations") or []]
            reasoning += delta.get("reasoning_content") or ""
            content += delta.get("content") or ""
        title = {"model": "ras", "messages": user(TITLE_TASK), "stream": False}
        async with posted(address, title) as response:
            assert response.status == 200
    assert content == "Brill" and reasoning.startswith("1. ") and len(sources) == 2
    assert usage["prompt_tokens"] > 0


REWRITTEN = "Where was the director of Dawn born?"


@pytest.mark.parametrize(
    ("written", "last", "asked", "how"),
    [
        (REWRITTEN, "Where was the director born?", REWRITTEN, "the model"),
        ("Who is the mayor?", "Where was she born?", "Where was Ana Lis born?", "rule"),
        ("Ana Lis", "What is her name?", "What is Ana Lis's name?", "rule"),
        ("Where was Ana Lis born in Peru?", "Where was Ana born?", "Where was Ana born?", ""),
        ("", "And what of the warehouse?", "And what of the warehouse?", ""),
    ],
)
async def test_what_was_said_before_gives_a_question_its_context(
    written: str, last: str, asked: str, how: str
) -> None:
    def script(request: Request) -> str:
        if (request.prompt or "").endswith("Next question in full:"):
            assert "Who directed Dawn?" in (request.prompt or "") and last in (request.prompt or "")
            return f" {written}"
        return good_model(request)

    async with asking(make_server(ScriptedEngine(script))) as client:
        told = user("Who directed Dawn?", "Ana Lis.", last)
        done = await client.chat.completions.create(model="ras", messages=told)
    assert done.trace["question"] == asked
    notes = [note for note in done.trace["notes"] if note.startswith("asked, by")]
    assert notes == ([f"asked, by {how}, as: {asked}"] if how else [])


LONG = "It rained on the coast. " * 2000
ASKED_AT_THE_END = f"{LONG}Who directed Dawn?"
TOLD_AT_THE_START = f"Ana Lis directed Dawn. {LONG}"


@pytest.mark.parametrize(
    ("told", "room", "asked", "how"),
    [
        ([ASKED_AT_THE_END, "Ana Lis."], 4000, "Where was Ana Lis born?", "the model"),
        (["Who directed Dawn?", TOLD_AT_THE_START], 4000, "Where was Ana Lis born?", "the model"),
        ([ASKED_AT_THE_END, "Ana Lis."], 200, "Where was Ana Lis born?", "rule"),
        (["Who directed Dawn?", TOLD_AT_THE_START], 200, "Where was she born?", ""),
        ([LONG, "Aa" * 9000], 200, "Where was she born?", ""),
    ],
)
async def test_a_long_turn_leaves_room_for_the_next_question(
    told: list[str], room: int, asked: str, how: str
) -> None:
    """The backbone has room for so many characters."""

    def script(request: Request) -> str:
        prompt = request.prompt or ""
        if not prompt.endswith("Next question in full:"):
            return good_model(request)
        if len(prompt) > room:
            raise PromptTooLongError(f"the prompt has {len(prompt)} tokens")
        said = prompt.split("Next question in full:")[-2]
        assert "Who directed Dawn?" in said and "Ana Lis" in said
        return " Where was Ana Lis born?"

    async with asking(make_server(ScriptedEngine(script))) as client:
        messages = user(*told, "Where was she born?")
        done = await client.chat.completions.create(model="ras", messages=messages)
    assert done.trace["question"] == asked
    notes = [note for note in done.trace["notes"] if note.startswith("asked, by")]
    assert notes == ([f"asked, by {how}, as: {asked}"] if how else [])


@pytest.mark.parametrize("count", [0, 1, 8, 9, 40, 41, 4000])
@pytest.mark.parametrize("word", ["word ", "w"])
def test_a_text_is_cut_between_words_where_it_has_any(word: str, count: int) -> None:
    text = (word * count).strip()
    cut = shortened(text, 40)
    assert len(cut) <= 40
    if len(text) <= 40:
        assert cut == text
    else:
        assert len(cut) > 20 and cut[:4] == text[:4] and cut[-3:] == text[-3:]
        assert set(cut.split()) <= {"word", "…"} or word == "w"


@pytest.mark.parametrize(
    ("change", "param", "message"),
    [
        ({"messages": user("x " * 50_000)}, "messages", "99999 characters"),
        ({"messages": user("  \n")}, "messages", "the last one is the question"),
        ({"messages": user("a", "b")}, "messages", "the last one is the question"),
        ({"subgraphs": [[["a", "b", "c"]]]}, "subgraphs", "not for a loop"),
        ({"structured_outputs": {"regex": "a"}}, "structured_outputs", "not for a loop"),
        ({"response_format": {"type": "json_object"}}, "response_format", "not for a loop"),
        ({"logprobs": True}, "logprobs", "not for a loop"),
        ({"model": "t2t", "evidence_only": True}, "evidence_only", "only a loop"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "text"),
    ],
)
async def test_what_a_loop_refuses(change: dict[str, Any], param: str, message: str) -> None:
    body = {"model": "ras", "messages": user(QUESTION), **change}
    engine = ScriptedEngine(good_model)
    async with listening(make_server(engine)) as address, posted(address, body) as response:
        error = (await response.json())["error"]
    assert (response.status, error["param"]) == (400, param)
    assert re.search(message, error["message"]), error["message"]
    assert not engine.requests


async def test_a_loop_is_asked_by_chats_alone() -> None:
    server = make_server(
        ScriptedEngine(good_model), {"hops": make_loop(ScriptedEngine(good_model))}
    )
    async with asking(server) as client:
        with pytest.raises(openai.BadRequestError, match="is a loop; ask it by POST"):
            await client.completions.create(model="hops", prompt="x")


async def test_a_failure_before_and_in_a_stream() -> None:
    def dies_at(where: str) -> Any:
        def script(request: Request) -> str:
            if where in (request.prompt or ""):
                raise EngineDiedError("the process ended")
            return good_model(request)

        return script

    body = {"model": "ras", "messages": user(QUESTION), "stream": True}
    early = make_server(ScriptedEngine(dies_at("You are a planner")))
    async with listening(early) as address, posted(address, body) as response:
        assert response.status == 503
    late = make_server(ScriptedEngine(dies_at("You are an answerer")))
    async with listening(late) as address:
        told = await events(address, body)
    assert told[-1] == "[DONE]" and told[-2]["error"]["code"] == "engine_died"
    assert [each["step"]["number"] for each in told[:-2] if "step" in each] == [1, 1, 2, 2]
    assert (late.metrics.counts.failed, late.metrics.counts.answered) == (1, 0)


async def test_a_failure_that_is_no_engine_s_ends_a_stream_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def script(request: Request) -> str:
        if (request.prompt or "").startswith("You are an answerer"):
            raise ZeroDivisionError("the insides")
        return good_model(request)

    server = make_server(ScriptedEngine(script))
    body = {"model": "ras", "messages": user(QUESTION), "stream": True}
    async with listening(server) as address:
        told = await asyncio.wait_for(events(address, body), 60)
    assert told[-1] == "[DONE]"
    assert (told[-2]["error"]["type"], told[-2]["error"]["code"]) == ("server_error", "internal")
    assert "insides" not in json.dumps(told) and "insides" in caplog.text
    assert [each["step"]["number"] for each in told[:-2] if "step" in each] == [1, 1, 2, 2]
    assert (server.metrics.counts.failed, server.running) == (1, 0)


class StoppedEngine(ScriptedEngine):
    """Answers until the answerer is asked, which never comes to an end."""

    def __init__(self) -> None:
        super().__init__(good_model)
        self.at_answer, self.let_go = asyncio.Event(), asyncio.Event()

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        if any((request.prompt or "").startswith("You are an answerer") for request in requests):
            self.at_answer.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.let_go.set()
        return await super().generate(requests)


async def test_a_stream_that_is_cut_frees_its_request() -> None:
    engine = StoppedEngine()
    server = make_server(engine)
    body = {"model": "ras", "messages": user(QUESTION), "stream": True}
    async with listening(server) as address, ClientSession() as session:
        response = await session.post(f"{address}/v1/chat/completions", json=body)
        assert (await response.content.readline()).startswith(b"data: ")
        await asyncio.wait_for(engine.at_answer.wait(), 60)
        assert server.running == 1
        response.close()
        await asyncio.wait_for(engine.let_go.wait(), 60)
        await asyncio.sleep(0.05)
        assert (server.running, server.metrics.counts.abandoned) == (0, 1)


async def test_a_deadline_ends_a_loop() -> None:
    body = {"model": "ras", "messages": user(QUESTION), "deadline_seconds": 0.2}
    async with listening(make_server(StoppedEngine())) as address:
        async with posted(address, body) as response:
            assert response.status == 504
        told = await events(address, {**body, "stream": True})
        assert told[-2]["error"]["code"] == "deadline_exceeded"


class HeldEngine(ScriptedEngine):
    """Answers nothing before it is told to."""

    def __init__(self) -> None:
        super().__init__(good_model)
        self.go_on = asyncio.Event()

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        await self.go_on.wait()
        return await super().generate(requests)

    async def health(self) -> Health:
        return Health(True)


async def test_a_full_server_says_when_to_come_again() -> None:
    engine = HeldEngine()
    server = make_server(engine, most_running=2)
    body = {"model": "ras", "messages": user(QUESTION)}
    async with listening(server) as address:

        async def ask() -> tuple[int, str | None]:
            async with posted(address, body) as response:
                return response.status, response.headers.get("Retry-After")

        first = [asyncio.create_task(ask()) for _ in range(2)]
        while server.running < 2:
            await asyncio.sleep(0.01)
        assert await ask() == (429, "5")
        engine.go_on.set()
        assert [status for status, _ in await asyncio.gather(*first)] == [200, 200]
        assert await ask() == (200, None)


def numbered_world(people: int) -> tuple[list[Passage], Any]:
    """A film, a director and a place a number, and a model that knows each by its passages."""
    passages = [
        passage
        for n in range(people)
        for passage in (
            Passage(f"f{n}", f"Film {n:03}", f"Film {n:03} is directed by Person {n:03}."),
            Passage(f"p{n}", f"Person {n:03}", f"Person {n:03} was born in Place {n:03}."),
        )
    ]

    def model(request: Request) -> str:
        prompt = request.prompt or ""
        if prompt.startswith("extract Film"):
            n = prompt[-3:]
            return f"(S> Film {n}| P> director| O> Person {n})"
        if prompt.startswith("extract Person"):
            n = prompt[-3:]
            return f"(S> Person {n}| P> place of birth| O> Place {n})"
        if "O> Place " in prompt:
            n = prompt.split("O> Place ")[1][:3]
            return f"Place {n}" if prompt.startswith("You are an answerer") else "[SUFFICIENT]"
        if "O> Person " in prompt:
            return f"[SUBQ] Where was Person {prompt.split('O> Person ')[1][:3]} born?"
        return "[SUBQ] x"

    return passages, model


async def test_two_hundred_conversations_at_once_are_not_mixed_up() -> None:
    passages, model = numbered_world(200)
    engine = ScriptedEngine(model, gives_way=True)
    loop = make_loop(engine)
    loop.retriever.passages = passages
    server = make_server(engine, {"ras": loop})
    async with asking(server) as client:

        async def ask(n: int) -> tuple[str | None, str]:
            body = {
                "model": "ras",
                "messages": user(f"Where was the director of Film {n:03} born?"),
            }
            if n % 2:
                done = await client.chat.completions.create(**body)
                message = done.choices[0].message
                return message.content, message.reasoning_content
            content = reasoning = ""
            stream = await client.chat.completions.create(**body, stream=True)
            async for chunk in stream:
                delta = chunk.choices[0].delta
                content += delta.content or ""
                reasoning += getattr(delta, "reasoning_content", "")
            return content, reasoning

        answers = await asyncio.gather(*map(ask, range(200)))
    for n, (content, reasoning) in enumerate(answers):
        assert content == f"Place {n:03}"
        assert reasoning.count(f"Person {n:03}") >= 3 and "Film" in reasoning
        others = {f"Person {m:03}" for m in range(200) if m != n}
        assert not any(other in reasoning for other in others)
    assert (server.metrics.counts.answered, server.running) == (200, 0)
    assert engine.most_at_once > 10


async def test_metrics_name_models_and_no_question() -> None:
    server = make_server(ScriptedEngine(good_model))
    async with listening(server) as address, ClientSession() as session:
        async with posted(address, {"model": "ras", "messages": user(QUESTION)}) as response:
            assert response.status == 200
        async with posted(address, {"model": 1}) as response:
            assert response.status == 400
        async with session.get(f"{address}/metrics") as response:
            text = await response.text()
    assert 'trivium_requests_total{model="ras",outcome="answered"} 1.0' in text
    assert 'trivium_requests_total{model="",outcome="refused"} 1.0' in text
    assert 'trivium_loop_rounds_sum{model="ras"} 2.0' in text
    assert 'trivium_loop_stage_seconds_total{stage="retrieve"}' in text
    assert "trivium_running_requests 0.0" in text and "Dawn" not in text


EVIL = Passage("a/b?c", "<script>alert(1)</script>", 'x </p><img src=x onerror="alert(2)"> y')


async def test_a_passage_s_page_runs_nothing_and_needs_its_signature() -> None:
    cited = CitedPassages({EVIL.id: EVIL}, {EVIL.id: Place("<b>.html", 7)}, KEY)
    engine = ScriptedEngine(good_model)
    server = ModelServer(engine, model_names("m", []), KEY, served=Served({}, cited))
    async with listening(server) as address, ClientSession() as session:
        url = cited.url(address, EVIL.id, '<img src=x onerror="alert(2)">')
        async with session.get(url) as response:
            page = await response.text()
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert "<script" not in page and "<img" not in page and "<b>.html" not in page
        assert "<mark>&lt;img" in page
        async with session.get(url, headers={"Accept": "application/json"}) as response:
            told = await response.json()
            assert (told["text"], told["file"], told["page"]) == (EVIL.text, "<b>.html", 7)
        bare, bearer = f"{address}/passages/a%2Fb%3Fc", {"Authorization": f"Bearer {KEY}"}
        async with session.get(bare, headers=bearer) as response:
            assert response.status == 200
        for wrong in (bare, url[:-1] + "x"):
            async with session.get(wrong) as response:
                assert response.status == 401
        async with session.get(cited.url(address, "none such")) as response:
            assert response.status == 404
    assert KEY not in url


def test_a_loop_that_reads_text_alone_cites_its_passages() -> None:
    trace = Trace("q", "Brill", [TraceStep("q", [FILM, PERSON])])
    assert [(s.title, s.sentence) for s in sources_of(trace)] == [("Dawn", ""), ("Ana Lis", "")]


@pytest.mark.parametrize(
    ("pieces", "sent"),
    [
        (["noth", "ing"], ""),
        (["Nothing", "\n"], ""),
        (["no", "thing but", " Dawn"], "nothing but Dawn"),
        (["  Ana", " Lis "], "Ana Lis"),
    ],
)
def test_a_reader_that_declines_streams_no_answer(pieces: list[str], sent: str) -> None:
    chat = LoopChat(None, None, None, "")
    told: list[Chunk] = []
    chat._following.tell = told.append
    for piece in pieces:
        chat.writes(piece)
    assert "".join(chunk.delta["content"] for chunk in told) == sent
