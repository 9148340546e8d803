"""Requests to a Trivium server: how errors are told, and how often a busy server is asked again.

langchain-trivium and llama-index-extractors-trivium each carry this file, so that either can be
installed alone; a test holds the two equal.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
)

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", bound=BaseModel)
DEFAULT_BASE_URL = "http://127.0.0.1:8000/v1"
DEFAULT_TIMEOUT = 600.0
DEFAULT_MAX_RETRIES = 3
API_KEY_VARIABLE = "TRIVIUM_API_KEY"
CONNECT_SECONDS = 10.0
# However long a server asks to wait.
LONGEST_WAIT = 60.0
BUSY = (429, 503)
SHOWN_CHARACTERS = 200


class TriviumError(Exception):
    """A Trivium server cannot be reached, refuses a request, or gives no usable answer.

    status: of HTTP; None where there was no whole answer.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class TriviumBusyError(TriviumError):
    """The server answered 429 or 503, after all repetitions.

    retry_after: the seconds that it asks to wait; None where it does not say.
    repeatable: False where it asks not to repeat the request, which may have brought it down.
    """

    def __init__(
        self, message: str, status: int, retry_after: float | None, repeatable: bool
    ) -> None:
        super().__init__(message, status)
        self.retry_after = retry_after
        self.repeatable = repeatable


@dataclass(frozen=True)
class TriviumClient:
    """Posts JSON to a server, a connection a request, so that it belongs to no event loop.

    base_url: with /v1, as OpenAI's client takes it.
    timeout: seconds without a byte from the server, which sends none before its answer is whole.
    max_retries: how often a request is repeated that the server answers with 429 or 503.
    """

    base_url: str = DEFAULT_BASE_URL
    api_key: str | None = field(default=None, repr=False)
    timeout: float = DEFAULT_TIMEOUT
    max_retries: int = DEFAULT_MAX_RETRIES

    def post(self, path: str, body: Mapping[str, Any], answer: type[AnswerT]) -> AnswerT:
        """Return what the server answers; raises TriviumError."""
        answered: AnswerT = Retrying(**self._retrying())(self._post, path, body, answer)
        return answered

    async def apost(self, path: str, body: Mapping[str, Any], answer: type[AnswerT]) -> AnswerT:
        """Return what the server answers; raises TriviumError."""
        return await AsyncRetrying(**self._retrying())(self._apost, path, body, answer)

    def _post(self, path: str, body: Mapping[str, Any], answer: type[AnswerT]) -> AnswerT:
        with self._failures_told(), httpx.Client(**self._settings()) as client:
            response = client.post(path, json=body)
            if response.status_code == 404:
                raise self._not_found(response, client.get("models"))
        return self._parsed(response, answer)

    async def _apost(self, path: str, body: Mapping[str, Any], answer: type[AnswerT]) -> AnswerT:
        with self._failures_told():
            async with httpx.AsyncClient(**self._settings()) as client:
                response = await client.post(path, json=body)
                if response.status_code == 404:
                    raise self._not_found(response, await client.get("models"))
        return self._parsed(response, answer)

    def _settings(self) -> dict[str, Any]:
        return {
            "base_url": self.base_url,
            "headers": {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {},
            "verify": _certificates(),
            "timeout": httpx.Timeout(self.timeout, connect=min(self.timeout, CONNECT_SECONDS)),
        }

    def _retrying(self) -> dict[str, Any]:
        return {
            "retry": retry_if_exception(_is_repeatable),
            "stop": stop_after_attempt(self.max_retries + 1),
            "wait": _seconds_to_wait,
            "before_sleep": _log_wait,
            "reraise": True,
        }

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        """Turn what httpx raises into a TriviumError."""
        try:
            yield
        except httpx.ConnectTimeout as error:
            raise TriviumError(f"{self.base_url} cannot be reached: no connection") from error
        except httpx.TimeoutException as error:
            raise TriviumError(
                f"{self.base_url} gave no answer within {self.timeout:g} seconds; allow more: "
                "timeout"
            ) from error
        except (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise TriviumError(
                f"{self.base_url} cannot be reached: {error}. Does the server run there?"
            ) from error
        except httpx.HTTPError as error:
            raise TriviumError(
                f"the connection to {self.base_url} broke before the answer was whole: "
                f"{str(error) or type(error).__name__}"
            ) from error

    def _parsed(self, response: httpx.Response, answer: type[AnswerT]) -> AnswerT:
        if response.status_code != 200:
            raise self._refusal(response)
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise TriviumError(
                f"{self.base_url} gave no answer of a Trivium server: "
                f"{f'{place}: ' if place else ''}{first['msg']}; it begins {_shown(response)}",
                response.status_code,
            ) from error

    def _refusal(self, response: httpx.Response) -> TriviumError:
        status, said = response.status_code, _message(response)
        told = f"{self.base_url} answers {status}: {said}"
        if status == 401:
            return TriviumError(f"{told}; give api_key or set {API_KEY_VARIABLE}", status)
        if status not in BUSY:
            return TriviumError(told, status)
        repeatable = response.headers.get("x-should-retry") != "false"
        seconds = _seconds(response.headers.get("Retry-After"))
        return TriviumBusyError(told, status, seconds, repeatable)

    def _not_found(self, response: httpx.Response, models: httpx.Response) -> TriviumError:
        """Return the error of a 404, which names what the server has."""
        try:
            names = ", ".join(_names(models.json()["data"]))
        except (ValueError, KeyError, TypeError):
            names = ""
        hint = f"it has: {names}" if names else "does base_url end in /v1?"
        return TriviumError(f"{self.base_url} answers 404: {_message(response)}; {hint}", 404)


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates, which take longer to read than a request to send."""
    return httpx.create_ssl_context()


def _is_repeatable(error: BaseException) -> bool:
    return isinstance(error, TriviumBusyError) and error.repeatable


def _log_wait(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    logger.warning("%s; asking again in %g seconds", error, state.upcoming_sleep)


def _seconds_to_wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, TriviumBusyError) and error.retry_after is not None:
        return min(error.retry_after, LONGEST_WAIT)
    return wait_exponential(max=LONGEST_WAIT)(state)


def _seconds(header: str | None) -> float | None:
    """Return the seconds of a Retry-After; None where it has none, or a date."""
    try:
        return max(0.0, float(header or ""))
    except ValueError:
        return None


def _names(models: list[dict[str, Any]]) -> list[str]:
    """Return each model's name with its kind, as `ras (loop)`."""
    return [f"{one['id']} ({one['kind']})" if "kind" in one else one["id"] for one in models]


def _message(response: httpx.Response) -> str:
    """Return the message of OpenAI's error object, or how the body begins."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return _shown(response)


def _shown(response: httpx.Response) -> str:
    return repr(response.text[:SHOWN_CHARACTERS])
