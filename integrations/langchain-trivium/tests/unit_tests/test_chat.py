"""A loop as a chat model: langchain-openai's ChatOpenAI at the server's address."""

import json
import os

import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from stand_in import LOOP, QUESTION, Reply, StandIn, streamed

EVENTS = {"Content-Type": "text/event-stream"}


def chat(address: str, model: str = "ras") -> ChatOpenAI:
    key = SecretStr(os.environ.get("TRIVIUM_API_KEY", "none"))
    return ChatOpenAI(base_url=address, model=model, api_key=key, max_retries=0)


# langchain-openai keeps one client an address, which lives in one event loop.
one_event_loop = pytest.mark.asyncio(loop_scope="module")


@one_event_loop
async def test_a_loop_answers(address: str) -> None:
    asked = chat(address, LOOP)
    answer = asked.invoke(QUESTION)
    assert answer.text and answer.usage_metadata
    assert (await asked.ainvoke(QUESTION)).text == answer.text


@one_event_loop
async def test_streamed_it_says_the_same(address: str) -> None:
    asked = chat(address, LOOP)
    chunks = list(asked.stream(QUESTION, stream_usage=True))
    answer = asked.invoke(QUESTION).text
    assert "".join(chunk.text for chunk in chunks) == answer
    assert sum(chunk.usage_metadata is not None for chunk in chunks) == 1
    assert "".join([chunk.text async for chunk in asked.astream(QUESTION)]) == answer


def test_it_sends_no_field_that_the_server_would_refuse(stand_in: StandIn) -> None:
    assert chat(stand_in.address).invoke(QUESTION).text == "Brill"
    pieces = [chunk.text for chunk in chat(stand_in.address).stream(QUESTION)]
    assert [piece for piece in pieces if piece] == ["Br", "ill"]
    assert [body["messages"][-1]["content"] for body in stand_in.bodies] == [QUESTION] * 2


def test_a_failure_in_the_middle_of_a_stream_is_raised(stand_in: StandIn) -> None:
    begun = streamed({}).partition('data: {"id"')
    error = {"error": {"message": "the engine died", "type": "server_error", "code": None}}
    body = f"{begun[0]}data: {json.dumps(error)}\n\ndata: [DONE]\n\n"
    stand_in.replies.append(Reply(body=body, headers=EVENTS))
    with pytest.raises(openai.APIError, match="the engine died"):
        list(chat(stand_in.address).stream(QUESTION))


def test_a_stream_that_is_cut_is_raised(stand_in: StandIn) -> None:
    whole = streamed({})
    stand_in.replies.append(Reply(body=whole[: len(whole) // 2], headers=EVENTS, cut=True))
    with pytest.raises(openai.APIConnectionError):
        list(chat(stand_in.address).stream(QUESTION))
