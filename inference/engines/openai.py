"""Models behind an OpenAI-compatible endpoint: teachers, APIs, `vllm serve`."""

from __future__ import annotations

import asyncio
import email.utils
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import openai

from inference.engines.contract import (
    AccessError,
    Completion,
    EngineError,
    Health,
    InvalidRequestError,
    PromptTooLongError,
    Request,
    TransientError,
    UnsupportedRequestError,
)
from inference.engines.openai_stream import STREAMED, read_stream
from inference.engines.running_requests import PROBE_SECONDS, RunningRequests, completions_of

# Request time-out, conflict, rate limit.
TRANSIENT_STATUSES = (408, 409, 429)
# No key or a wrong one, no money, no such model.
ACCESS_STATUSES = (401, 402, 404)
INVALID_STATUSES = (400, 422)
TOO_LONG = "context_length_exceeded"
NO_QUOTA = "insufficient_quota"
MOST_STOP_STRINGS = 4
# Without a tokenizer: English text has about four characters a token.
CHARACTERS_A_TOKEN = 4
LOCAL_KEY = "none"


def endpoint_error(error: openai.OpenAIError, where: str, key: str | None) -> EngineError:
    """Return the error of a request to `where` (model and address): whose fault, and if it passes.

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
    """Return how long an answer's headers ask to wait, in seconds; None where they do not say.

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


class OpenAIEngine:
    """Sends each request on its own and bounds how many are in flight; the server batches.

    A prompt goes to the completions endpoint when `completion` is set, else as one user message
    to the chat endpoint. Graphs, adapters and ready-made ids are refused, as OpenAI's protocol has
    none; over `inference/serve.py`, the way to a local teacher, `model` may name a component.
    Retries are the client's; with `max_retries` 0 they are the caller's, who is told by
    TransientError.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        completion: bool = False,
        max_concurrency: int = 32,
        max_retries: int = 3,
        timeout: float = 120.0,
    ) -> None:
        """Make the client.

        Args:
            model: the name that the endpoint knows.
            base_url: its address; None: `OPENAI_BASE_URL`, else OpenAI's own.
            api_key: None: `OPENAI_API_KEY`. A server of one's own needs none.
            completion: use the completions endpoint for prompts.
            max_concurrency: most requests in flight.
            max_retries, timeout: of one request; timeout in seconds.

        Raises EngineError when there is neither a key nor an address.
        """
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        api_key = api_key or os.environ.get("OPENAI_API_KEY")
        if not api_key and not base_url:
            raise EngineError(
                "no key for the API: set OPENAI_API_KEY, or name a server of your own by "
                "OPENAI_BASE_URL"
            )
        self.model = model
        self.completion = completion
        self._requests = RunningRequests()
        self._in_flight = asyncio.Semaphore(max_concurrency)
        self._client = openai.AsyncOpenAI(
            api_key=api_key or LOCAL_KEY,
            base_url=base_url,
            max_retries=max_retries,
            timeout=timeout,
        )

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion a request, in order. Raises EngineError with its reason."""
        self._requests.refuse_when_closed()
        for request in requests:
            _refuse_unsupported(request)
        return await completions_of(
            self._requests.settle(request, self._answer) for request in requests
        )

    async def health(self) -> Health:
        """Return whether the endpoint lists its models; costs no token."""
        if self._requests.closed:
            return Health(False, "the engine is closed")
        try:
            await self._client.models.list(timeout=PROBE_SECONDS)
        except openai.OpenAIError as error:
            return Health(False, f"{type(error).__name__}: {error}")
        return Health(True, running=len(self._requests))

    async def close(self) -> None:
        """Close the connections; requests still waiting end with EngineClosedError."""
        await self._requests.close()
        await self._client.close()

    def count_tokens(self, text: str) -> int:
        """Return an estimate, four characters a token: the endpoint's tokenizer is not at hand."""
        return -(-len(text) // CHARACTERS_A_TOKEN)

    async def _answer(self, request: Request) -> Completion:
        """Ask the endpoint. Raises EngineError."""
        try:
            async with self._in_flight:
                if self.completion and request.prompt is not None:
                    return await self._complete(request)
                return await self._chat(request)
        except openai.OpenAIError as error:
            # Not as its cause: a traceback would show what the endpoint said about the key.
            raise endpoint_error(error, self._where, self._secret) from None

    @property
    def _secret(self) -> str | None:
        key = self._client.api_key
        return None if key == LOCAL_KEY else key

    @property
    def _where(self) -> str:
        return f"{self.model} at {self._client.base_url}"

    async def _send(self, create: Callable[..., Awaitable[Any]], **body: Any) -> Any:
        """Return the only choice of an answer and its usage."""
        try:
            response = await create(model=self.model, **body)
        except ValueError as error:  # the client reads JSON that was cut short without a catch
            message = f"{self._where}: the answer is not whole JSON ({error})"
            raise TransientError(message, may_be_billed=True) from error
        # What is not JSON at all, such as a proxy's page, comes as a string.
        choices = getattr(response, "choices", None)
        if not choices:
            message = f"{self._where}: the endpoint answered without a choice"
            raise TransientError(message, may_be_billed=True)
        return choices[0], response.usage

    async def _stream(
        self, request: Request, create: Callable[..., Awaitable[Any]], **body: Any
    ) -> Completion:
        assert request.on_text is not None
        chunks = await create(model=self.model, **STREAMED, **body)
        whole = await read_stream(chunks, request.on_text, self._where)
        logprobs = whole.logprobs if request.sampling.logprobs else None
        return _completion(whole.text, whole, whole.usage, logprobs)

    async def _chat(self, request: Request) -> Completion:
        messages: Any = [dict(message) for message in request.messages or ()]
        if request.prompt is not None:
            messages = [{"role": "user", "content": request.prompt}]
        options = request_options(request)
        if request.sampling.logprobs:
            options["logprobs"] = True
        create = self._client.chat.completions.create
        if request.on_text is not None:
            return await self._stream(request, create, messages=messages, **options)
        choice, usage = await self._send(create, messages=messages, **options)
        listed = choice.logprobs.content if choice.logprobs else None
        logprobs = [token.logprob for token in listed] if listed else None
        text = choice.message.content if choice.message else None
        return _completion(text or "", choice, usage, logprobs)

    async def _complete(self, request: Request) -> Completion:
        options = request_options(request)
        if request.sampling.logprobs:
            options["logprobs"] = 0
        if "response_format" in options:  # not OpenAI's own for completions; other servers take it
            options["extra_body"] = {"response_format": options.pop("response_format")}
        create = self._client.completions.create
        if request.on_text is not None:
            return await self._stream(request, create, prompt=request.prompt, **options)
        choice, usage = await self._send(create, prompt=request.prompt, **options)
        logprobs = list(choice.logprobs.token_logprobs or []) if choice.logprobs else None
        return _completion(choice.text, choice, usage, logprobs)


def request_options(request: Request) -> dict[str, Any]:
    """Return the API's names for how tokens are chosen and what they may be."""
    sampling = request.sampling
    options: dict[str, Any] = {
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
    }
    if sampling.stop:
        options["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        options["seed"] = sampling.seed
    if request.constraint is not None:
        schema = json.loads(request.constraint.json_schema or "")
        options["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": schema, "strict": True},
        }
    return options


def _refuse_unsupported(request: Request) -> None:
    named = request.adapter or request.soft_prompt
    if named is not None or request.subgraphs is not None:
        what = "adapters" if named is not None else "graph tokens"
        raise UnsupportedRequestError(
            f"an API endpoint takes text alone, no {what}; use the transformers engine"
        )
    if request.input_ids is not None:
        raise UnsupportedRequestError(
            "an API endpoint has its own tokenizer; give prompt or messages, not input_ids"
        )
    if request.constraint is not None and request.constraint.json_schema is None:
        raise UnsupportedRequestError(
            "an API endpoint holds its output to a JSON schema alone, not to a regex or a grammar"
        )
    if request.constraint is not None:
        try:
            json.loads(request.constraint.json_schema or "")
        except ValueError as error:
            raise InvalidRequestError(f"the JSON schema is not JSON: {error}") from None
    if len(request.sampling.stop) > MOST_STOP_STRINGS:
        raise InvalidRequestError(f"an API endpoint takes at most {MOST_STOP_STRINGS} stop strings")


def _completion(text: str, choice: Any, usage: Any, logprobs: list[float] | None) -> Completion:
    return Completion(
        text=text,
        token_ids=(),
        input_tokens=usage.prompt_tokens if usage else 0,
        output_tokens=usage.completion_tokens if usage else 0,
        finish_reason="length" if choice.finish_reason == "length" else "stop",
        logprobs=logprobs,
    )
