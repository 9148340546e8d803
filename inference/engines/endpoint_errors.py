"""What an endpoint's client raises, as an engine's own errors: what may pass, and what will not."""

import email.utils
import time
from collections.abc import Mapping

import openai

from inference.engines.errors import (
    AccessError,
    EngineError,
    InvalidRequestError,
    PromptTooLongError,
    TransientError,
)

# Request time-out, conflict, rate limit.
TRANSIENT_STATUSES = (408, 409, 429)
# No key or a wrong one, no money, no such model.
ACCESS_STATUSES = (401, 402, 404)
INVALID_STATUSES = (400, 422)
TOO_LONG = "context_length_exceeded"
NO_QUOTA = "insufficient_quota"


def endpoint_error(error: openai.OpenAIError, where: str, key: str | None) -> EngineError:
    """The error of a request to `where` (model and address): will it pass, whose fault is it.

    An endpoint may say the key that it refuses; the message does not.
    """
    message = f"{where}: {type(error).__name__}: {error}"
    if key:
        message = message.replace(key, "(key)")
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, message)
    if isinstance(error, openai.APIConnectionError):
        # The request was under way: nobody knows whether the endpoint has answered it.
        return TransientError(message, may_be_billed=True)
    return EngineError(message)


def _of_status(error: openai.APIStatusError, message: str) -> EngineError:
    if error.status_code in ACCESS_STATUSES or NO_QUOTA in (error.code, error.type):
        return AccessError(message)
    if error.code == TOO_LONG:
        return PromptTooLongError(message)
    if error.status_code in INVALID_STATUSES:
        return InvalidRequestError(message)
    if error.status_code in TRANSIENT_STATUSES or error.status_code >= 500:
        return TransientError(message, retry_after_seconds(error.response.headers))
    return EngineError(message)


def retry_after_seconds(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """How long an answer's headers ask to wait, in seconds; None where they do not say.

    `retry-after-ms` comes before `Retry-After`, which holds seconds or a date (RFC 9110 §10.2.3).
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    try:
        date = email.utils.parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(0.0, date.timestamp() - (time.time() if now is None else now))
