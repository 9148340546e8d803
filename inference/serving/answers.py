"""An engine's completions as the bodies of OpenAI's protocol."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from inference.engines.contract import Completion


def models_answer(names: Mapping[str, str | None], started: int) -> dict[str, Any]:
    """The list of what can be asked; `names`: adapters by name, None for the backbone.

    An adapter's `parent` is the backbone, as vLLM has it.
    """
    backbone = next(name for name, adapter in names.items() if adapter is None)
    data = [
        {
            "id": name,
            "object": "model",
            "created": started,
            "owned_by": "trivium",
            "parent": None if adapter is None else backbone,
        }
        for name, adapter in names.items()
    ]
    return {"object": "list", "data": data}


def completion_answer(model: str, done: Sequence[Completion]) -> dict[str, Any]:
    """The body of POST /v1/completions: a choice a prompt, in order."""
    choices = [
        {
            "index": index,
            "text": one.text,
            "logprobs": _completion_logprobs(one),
            "finish_reason": one.finish_reason,
        }
        for index, one in enumerate(done)
    ]
    return _answer("cmpl", "text_completion", model, choices, done)


def chat_answer(model: str, done: Sequence[Completion]) -> dict[str, Any]:
    """The body of POST /v1/chat/completions."""
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": one.text},
            "logprobs": _chat_logprobs(one),
            "finish_reason": one.finish_reason,
        }
        for index, one in enumerate(done)
    ]
    return _answer("chatcmpl", "chat.completion", model, choices, done)


def _answer(
    prefix: str,
    kind: str,
    model: str,
    choices: list[dict[str, Any]],
    done: Sequence[Completion],
) -> dict[str, Any]:
    read = sum(one.input_tokens for one in done)
    written = sum(one.output_tokens for one in done)
    return {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "choices": choices,
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        },
    }


def _tokens(done: Completion) -> list[str]:
    """Tokens as vLLM writes them by their ids: a token alone need not be text."""
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
