"""What the server refuses or cannot do, as OpenAI's protocol says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference.engines.endpoint_errors import TOO_LONG
from inference.engines.errors import (
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
        """OpenAI's error object."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        fields = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": fields}


def of_engine_error(error: EngineError, prompt_field: str) -> ApiError:
    """An engine's error in the protocol; `prompt_field` is what a prompt too long came in."""
    status, code, headers = next(row[1:] for row in OF_ENGINE if isinstance(error, row[0]))
    message = str(error)
    for name, in_protocol in PROTOCOL_NAMES.items():
        message = message.replace(name, in_protocol)
    if isinstance(error, DeadlineExceededError):
        message += f"; {LONGER}"
    return ApiError(status, message, prompt_field if code == TOO_LONG else None, code, headers)
