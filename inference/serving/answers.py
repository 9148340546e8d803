"""Completions and errors as the bodies of OpenAI's protocol, and how many there were."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inference.engines.contract import (
    Completion,
    DeadlineExceededError,
    EngineClosedError,
    EngineDiedError,
    EngineError,
    InvalidRequestError,
    PromptTooLongError,
    TransientError,
    UnknownAdapterError,
    UnsupportedRequestError,
)
from inference.engines.openai import TOO_LONG

RETRY_AFTER_SECONDS = 30
# OpenAI's client repeats any 5xx by itself. A deadline that is over stays over, and a request under
# which the engine died may be what killed it.
NO_RETRY = {"x-should-retry": "false"}
RETRY_LATER = {"Retry-After": str(RETRY_AFTER_SECONDS)}
# Each before its parents. 504, not 408: the request came whole, the answer did not.
OF_ENGINE: tuple[tuple[type[EngineError], int, str, Mapping[str, str]], ...] = (
    (PromptTooLongError, 400, TOO_LONG, {}),
    (UnsupportedRequestError, 400, "unsupported", {}),
    (InvalidRequestError, 400, "invalid_value", {}),
    (UnknownAdapterError, 404, "model_not_found", {}),
    (DeadlineExceededError, 504, "deadline_exceeded", NO_RETRY),
    (EngineDiedError, 503, "engine_died", RETRY_LATER | NO_RETRY),
    (EngineClosedError, 503, "engine_closed", RETRY_LATER),
    (TransientError, 503, "engine_busy", RETRY_LATER),
    (EngineError, 500, "generation_failed", {}),
)
LONGER = (
    "send fewer prompts a call or ask for fewer tokens, or allow more: deadline_seconds of the "
    "request, --deadline of the server"
)
# The engines' names for what the protocol calls otherwise.
PROTOCOL_NAMES = {"max_new_tokens": "max_tokens", "input_ids": "prompt"}


@dataclass
class Counts:
    """The counts of calls so far by outcome; tokens are those of answered ones.

    refused: 4xx. failed: 5xx. abandoned: the client went before the answer came.
    """

    answered: int = 0
    refused: int = 0
    failed: int = 0
    abandoned: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class ApiError(Exception):
    """An answer that is an error; the message names the field, the limit and the remedy.

    param: the field. headers: sent beside the body.
    """

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Return OpenAI's error object."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        fields = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": fields}


def of_engine_error(error: EngineError, prompt_field: str) -> ApiError:
    """Return an engine's error in the protocol; `prompt_field` is where a prompt too long came."""
    status, code, headers = next(row[1:] for row in OF_ENGINE if isinstance(error, row[0]))
    message = str(error)
    for name, in_protocol in PROTOCOL_NAMES.items():
        message = message.replace(name, in_protocol)
    if isinstance(error, DeadlineExceededError):
        message += f"; {LONGER}"
    return ApiError(status, message, prompt_field if code == TOO_LONG else None, code, headers)


def internal_error() -> ApiError:
    """Return the answer to a failure of the server itself, which tells none of its insides."""
    return ApiError(500, "internal error; the server's log has it", code="internal")


def models_answer(
    names: Mapping[str, str | None], loops: Iterable[str], started: int
) -> dict[str, Any]:
    """Return the list of what can be asked; `names`: adapters by name, None for the backbone.

    An adapter's `parent` is the backbone, as vLLM has it. A loop is asked by chats alone and a
    component by completions, so the two may share a name, which is then listed once.
    """
    backbone = next(name for name, adapter in names.items() if adapter is None)
    kinds = {
        name: "backbone" if adapter is None else "component" for name, adapter in names.items()
    }
    data = [
        {
            "id": name,
            "object": "model",
            "created": started,
            "owned_by": "trivium",
            "parent": None if name == backbone else backbone,
            "kind": kind,
        }
        for name, kind in (kinds | dict.fromkeys(loops, "loop")).items()
    ]
    return {"object": "list", "data": data}


def completion_answer(model: str, done: Sequence[Completion]) -> dict[str, Any]:
    """Return the body of POST /v1/completions: a choice a prompt, in order."""
    choices = [
        {
            "index": index,
            "text": one.text,
            "logprobs": _completion_logprobs(one),
            "finish_reason": one.finish_reason,
        }
        for index, one in enumerate(done)
    ]
    return Envelope("cmpl", "text_completion", model).body(choices, usage=usage_of(done))


def chat_answer(model: str, done: Sequence[Completion]) -> dict[str, Any]:
    """Return the body of POST /v1/chat/completions."""
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": one.text},
            "logprobs": _chat_logprobs(one),
            "finish_reason": one.finish_reason,
        }
        for index, one in enumerate(done)
    ]
    return Envelope("chatcmpl", "chat.completion", model).body(choices, usage=usage_of(done))


class Envelope:
    """The fields around the choices of an answer, which all chunks of a streamed one share."""

    def __init__(self, prefix: str, kind: str, model: str) -> None:
        self._fields = {
            "id": f"{prefix}-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": model,
        }

    def body(self, choices: Sequence[Mapping[str, Any]], **beside: Any) -> dict[str, Any]:
        """Return a whole body or one chunk; `beside` stands next to the choices."""
        return {**self._fields, "choices": list(choices), **beside}


def usage_of(done: Sequence[Completion]) -> dict[str, int]:
    """Return the tokens of completions."""
    return usage(sum(one.input_tokens for one in done), sum(one.output_tokens for one in done))


def usage(read: int, written: int) -> dict[str, int]:
    """Return OpenAI's usage object."""
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }


def _tokens(done: Completion) -> list[str]:
    """Return the tokens as vLLM writes them by their ids: a token alone need not be text."""
    return [f"token_id:{token}" for token in done.token_ids]


def _completion_logprobs(done: Completion) -> dict[str, Any] | None:
    if done.logprobs is None:
        return None
    return {
        "tokens": _tokens(done),
        "token_logprobs": done.logprobs,
        "top_logprobs": None,
        "text_offset": None,
    }


def _chat_logprobs(done: Completion) -> dict[str, Any] | None:
    if done.logprobs is None:
        return None
    pairs = zip(_tokens(done), done.logprobs, strict=True)
    content: list[dict[str, Any]] = [
        {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": []}
        for token, logprob in pairs
    ]
    return {"content": content, "refusal": None}
