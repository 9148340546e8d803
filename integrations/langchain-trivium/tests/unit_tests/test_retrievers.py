"""Documents of the evidence, keys, and what an error says."""

import json
from importlib.metadata import requires
from importlib.resources import files
from typing import Any

import pytest
from langchain_trivium import TriviumBusyError, TriviumError, TriviumRetriever
from packaging.requirements import Requirement
from pydantic import ValidationError
from stand_in import QUESTION, Reply, StandIn, refusal, stand_in_server

CORE = {"httpx", "langchain-core", "pydantic", "tenacity"}


def retriever(stand_in: StandIn, **settings: Any) -> TriviumRetriever:
    return TriviumRetriever(base_url=stand_in.address, **settings)


def test_documents_are_the_passages_in_the_order_found(stand_in: StandIn) -> None:
    found = retriever(stand_in).invoke(QUESTION)
    assert [document.id for document in found] == ["p1", "p2", "p3", "p4"]
    assert found[0].page_content == "Dawn was directed by Ana Lis. It ran for a year."
    assert found[0].metadata == {
        "id": "p1",
        "title": "Dawn",
        "url": "http://127.0.0.1/passages/p1",
        "steps": [1, 2],
        "subqueries": ["Who directed Dawn?", "Where was Ana Lis born?"],
        "triples": [
            {
                "subject": "Dawn",
                "predicate": "was directed by",
                "object": "Ana Lis",
                "sentence": "Dawn was directed by Ana Lis.",
            }
        ],
    }
    assert found[1].metadata["triples"] == [] and found[1].metadata["steps"] == [1]
    assert json.loads(found[2].model_dump_json())["metadata"]["subqueries"] == [
        "Where was Ana Lis born?"
    ]
    [body] = stand_in.bodies
    assert body == {
        "model": "ras",
        "messages": [{"role": "user", "content": QUESTION}],
        "evidence_only": True,
    }


async def test_asynchronously_the_same(stand_in: StandIn) -> None:
    asked = retriever(stand_in, model="t2rag", k=3)
    assert await asked.ainvoke(QUESTION) == asked.invoke(QUESTION)
    assert len(await asked.ainvoke(QUESTION, k=1)) == 1
    assert stand_in.bodies[0]["model"] == "t2rag"


def test_a_passage_found_twice_is_one_document(stand_in: StandIn) -> None:
    passage = {"id": "p1", "title": "Dawn", "text": "Dawn is a film."}
    passages = [{**passage, "step": 1}, {**passage, "id": "p2", "step": 1}, {**passage, "step": 2}]
    stand_in.replies.append(Reply(body=json.dumps({"evidence": {"passages": passages}})))
    found = retriever(stand_in).invoke(QUESTION)
    assert [document.id for document in found] == ["p1", "p2"]
    assert found[0].metadata["steps"] == [1] and found[0].metadata["url"] is None


def test_the_key_comes_from_the_environment_and_is_not_shown(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.api_key = "a-secret"
    with pytest.raises(TriviumError, match=r"401: no such key; give api_key or set TRIVIUM_API"):
        retriever(stand_in).invoke(QUESTION)
    monkeypatch.setenv("TRIVIUM_API_KEY", "a-secret")
    asked = retriever(stand_in)
    assert asked.invoke(QUESTION)
    assert "a-secret" not in repr(asked) + str(asked.model_dump())


def test_an_unknown_loop_gets_the_names_of_those_there_are(stand_in: StandIn) -> None:
    with pytest.raises(TriviumError, match="no 'rax'; it has: smollm2") as raised:
        retriever(stand_in, model="rax").invoke(QUESTION)
    assert "ras (loop), t2rag (loop)" in str(raised.value) and raised.value.status == 404


async def test_an_address_without_v1_is_told(stand_in: StandIn) -> None:
    asked = TriviumRetriever(base_url=stand_in.address.removesuffix("/v1"))
    with pytest.raises(TriviumError, match="does base_url end in /v1"):
        await asked.ainvoke(QUESTION)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_so_often_at_most(
    stand_in: StandIn, status: int
) -> None:
    busy = refusal(status, "too many wait", Retry_After="0.01")
    stand_in.replies += [busy, busy]
    assert await retriever(stand_in).ainvoke(QUESTION)
    assert len(stand_in.bodies) == 3
    stand_in.replies += [busy] * 3
    with pytest.raises(TriviumBusyError, match=f"{status}: too many wait") as raised:
        retriever(stand_in, max_retries=2).invoke(QUESTION)
    assert raised.value.retry_after == 0.01
    assert len(stand_in.bodies) == 6 and not stand_in.replies


def test_what_the_server_says_not_to_repeat_is_not(stand_in: StandIn) -> None:
    stand_in.replies.append(refusal(503, "the engine died", x_should_retry="false"))
    with pytest.raises(TriviumBusyError, match="the engine died"):
        retriever(stand_in).invoke(QUESTION)
    assert len(stand_in.bodies) == 1


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(body="<html>A proxy</html>"), r"Invalid JSON.* begins '<html>A proxy"),
        (Reply(body='{"choices": []}'), "evidence: Field required"),
        (Reply(body='{"evidence": {}}'), "evidence.passages: Field required"),
        (
            Reply(body='{"evidence": {"passages": []}, "trace": {"error": "out of memory"}}'),
            "the loop ras failed: out of memory",
        ),
        (Reply(body='{"evidence"', cut=True), "broke before the answer was whole"),
        (Reply(502, "<html>Bad gateway</html>"), "answers 502: '<html>Bad gateway"),
        (refusal(500, "the model failed"), "answers 500: the model failed"),
    ],
)
async def test_what_is_no_answer_is_told(stand_in: StandIn, reply: Reply, said: str) -> None:
    stand_in.replies += [reply, reply]
    with pytest.raises(TriviumError, match=said):
        retriever(stand_in).invoke(QUESTION)
    with pytest.raises(TriviumError, match=said):
        await retriever(stand_in).ainvoke(QUESTION)


async def test_a_server_that_is_not_there_is_told() -> None:
    with stand_in_server() as gone:
        asked = retriever(gone)
    with pytest.raises(TriviumError, match=r"/v1 cannot be reached.*Does the server run") as raised:
        await asked.ainvoke(QUESTION)
    assert raised.value.status is None
    with pytest.raises(TriviumError, match="cannot be reached"):
        TriviumRetriever(base_url="127.0.0.1").invoke(QUESTION)


def test_an_answer_that_takes_too_long_is_told(stand_in: StandIn) -> None:
    stand_in.lock.acquire()
    try:
        with pytest.raises(TriviumError, match=r"within 0\.2 seconds; allow more: timeout"):
            retriever(stand_in, timeout=0.2).invoke(QUESTION)
    finally:
        stand_in.lock.release()


def test_settings_are_checked() -> None:
    with pytest.raises(ValidationError, match="k\n"):
        TriviumRetriever(k=0)
    with pytest.raises(ValueError, match="k is -1; give at least 1"):
        TriviumRetriever().invoke(QUESTION, k=-1)


def test_the_distribution_is_typed_and_needs_nothing_beside_the_core() -> None:
    assert files("langchain_trivium").joinpath("py.typed").is_file()
    needed = [Requirement(line) for line in requires("langchain-trivium") or []]
    assert {each.name for each in needed if each.marker is None} == CORE
