"""Answers as the chunks of OpenAI's protocol: a component's as it is written, a loop's by steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from inference.engines.contract import Completion, Engine, Request
from inference.loops.trace import Trace
from inference.serving.answers import Envelope, usage, usage_of
from inference.serving.conversation import Asked
from inference.serving.event_stream import Following
from inference.serving.loop_chats import LoopChat, reasoning_text
from inference.serving.metrics import Metrics
from inference.serving.request_body import Body, ChatBody

Bodies = AsyncGenerator[Mapping[str, Any] | None, None]


async def component_chunks(
    body: Body, engine: Engine, requests: Sequence[Request], metrics: Metrics
) -> Bodies:
    """Give the chunks of a component's or the backbone's answers; None where nothing came for long.

    Raises EngineError.
    """
    following: Following[tuple[int, str], list[Completion]] = Following()
    told = [_telling(request, index, following) for index, request in enumerate(requests)]
    is_chat = isinstance(body, ChatBody)
    kind = ("chatcmpl", "chat.completion.chunk") if is_chat else ("cmpl", "text_completion")
    envelope = Envelope(*kind, body.model)
    begun = set[int]()
    async with aclosing(following.hear(engine.generate(told))) as heard:
        async for news in heard:
            if news is None:
                yield None
                continue
            index, text = news
            if is_chat and index not in begun:
                yield envelope.body([_choice(is_chat, index, "", first=True)])
            begun.add(index)
            yield envelope.body([_choice(is_chat, index, text)])
    done = following.result
    assert done is not None
    metrics.completed(body.model, done)
    ends = [
        _choice(is_chat, index, "", finish_reason=one.finish_reason, first=index not in begun)
        for index, one in enumerate(done)
    ]
    for chunk in _with_usage(envelope, ends, body, {"usage": usage_of(done)}):
        yield chunk


def _telling(request: Request, index: int, following: Following[tuple[int, str], Any]) -> Request:
    return replace(request, on_text=lambda text: following.tell((index, text)))


def _choice(
    is_chat: bool, index: int, text: str, finish_reason: str | None = None, first: bool = False
) -> dict[str, Any]:
    shared = {"index": index, "logprobs": None, "finish_reason": finish_reason}
    if not is_chat:
        return {**shared, "text": text}
    delta = {"role": "assistant"} if first else {}
    return {**shared, "delta": delta if finish_reason else {**delta, "content": text}}


async def loop_chunks(body: Body, chat: LoopChat, asked: Asked, metrics: Metrics) -> Bodies:
    """Give the chunks of a loop's answer; None where nothing came for long. Raises EngineError."""
    envelope = Envelope("chatcmpl", "chat.completion.chunk", body.model)
    begun = False
    async with aclosing(chat.chunks(asked)) as chunks:
        async for chunk in chunks:
            if chunk is None:
                yield None
                continue
            if not begun:
                yield envelope.body([_choice(True, 0, "", first=True)])
                begun = True
            delta = dict(chunk.delta)
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
            yield envelope.body([choice], **chunk.beside)
    trace = chat.trace
    assert trace is not None
    metrics.answered(body.model, trace)
    end = _choice(True, 0, "", finish_reason="stop", first=not begun)
    beside = _told_at_the_end(chat, trace)
    for last in _with_usage(envelope, [end], body, beside):
        yield last


def _with_usage(
    envelope: Envelope, ends: Sequence[Mapping[str, Any]], body: Body, beside: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the last chunks: usage stands on the last choice's, or on one of its own if asked."""
    if not body.wants_usage_chunk:
        *others, last = ends
        chunks = [envelope.body([end]) for end in others]
        return [*chunks, envelope.body([last], **beside)]
    without = {name: value for name, value in beside.items() if name != "usage"}
    chunks = [envelope.body([end], **without) for end in ends]
    return [*chunks, envelope.body([], usage=beside["usage"])]


async def loop_answer(body: Body, chat: LoopChat, asked: Asked, metrics: Metrics) -> dict[str, Any]:
    """Return a loop's answer as the body of a chat. Raises EngineError."""
    trace = await chat.run(asked)
    metrics.answered(body.model, trace)
    message = {
        "role": "assistant",
        "content": chat.content(trace),
        "reasoning_content": reasoning_text(trace),
        "annotations": chat.annotations(trace),
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    envelope = Envelope("chatcmpl", "chat.completion", body.model)
    return envelope.body([choice], **_told_at_the_end(chat, trace))


def _told_at_the_end(chat: LoopChat, trace: Trace) -> dict[str, Any]:
    whole, bill = trace.to_json(), trace.bill
    spent = {**usage(bill.input_tokens, bill.output_tokens), "bill": whole["bill"]}
    told = {"usage": spent, "trace": whole}
    return told | ({"evidence": chat.evidence(trace)} if trace.evidence_only else {})
