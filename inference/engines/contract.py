"""The contract of every engine: options, requests, completions, errors, and names of components."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from common.errors import UserError
from models.formats.model_calls import LogprobsOf
from models.formats.triples import Triple

ENGINE_KINDS = ("auto", "vllm", "transformers", "openai", "ray")
RAY_ENGINES = ("auto", "vllm", "transformers")
if TYPE_CHECKING:  # an engine over a remote API needs neither torch nor graphs
    from models.formats.records import Record
    from models.parts.graph import Subgraph

SubgraphInput: TypeAlias = "Subgraph | tuple[Triple, ...]"
RAS_ADAPTER = "ras"
T2T_ADAPTER = "t2t"
EXTRACTOR_ADAPTER = "tri_rag"
READER_ADAPTER: Final = "read"
SPAN_READER: Final = "span_reader"
SHIPPED = Path(__file__).resolve().parents[2] / "checkpoints"
DEFAULT_CHECKPOINTS = {
    RAS_ADAPTER: SHIPPED / "ras_smollm2",
    T2T_ADAPTER: SHIPPED / "t2t_smollm2",
    EXTRACTOR_ADAPTER: SHIPPED / "tri_rag_smollm2",
    READER_ADAPTER: SHIPPED / "read_smollm2",
}
# No adapter of an engine: an encoder of its own.
DEFAULT_SPAN_READER = SHIPPED / "span_reader_minilm"
# Every engine and endpoint takes a seed below it.
SEEDS = 2**31


class EngineError(UserError, RuntimeError):
    """A request that an engine could not answer; the message says which and why."""


class InvalidRequestError(EngineError):
    """A request that contradicts itself, such as one with two prompts."""


class UnsupportedRequestError(EngineError):
    """A request for something that this engine cannot do, such as graphs over a remote API."""


class UnknownAdapterError(EngineError):
    """A request for an adapter that the engine did not load; the message names those it has."""


class PromptTooLongError(EngineError):
    """A prompt that, with its new tokens, does not fit the model's context."""


class GenerationError(EngineError):
    """The model failed while it ran this request, on its own, outside any batch."""


class DeadlineExceededError(EngineError):
    """A request that was not answered within its `deadline_seconds`."""

    def __init__(self, deadline_seconds: float | None) -> None:
        super().__init__(f"not answered within {deadline_seconds} seconds")


class TransientError(EngineError):
    """A failure that need not happen again: a busy endpoint, a broken connection, half an answer.

    retry_after: seconds that the endpoint asks to wait; None where it does not say.
    may_be_billed: the request may have been answered, and the answer lost on the way.
    """

    def __init__(
        self, message: str, retry_after: float | None = None, may_be_billed: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.may_be_billed = may_be_billed


class AccessError(EngineError):
    """An endpoint that refuses whatever it is asked: the key, the model's name or the quota."""


class EngineDiedError(EngineError):
    """The process that ran this request ended, or made no progress and was ended."""


class EngineClosedError(EngineError):
    """A request that came after, or was waiting at, the engine's close."""


def generation_error(error: Exception) -> GenerationError:
    """Return an error of a model or library as an engine's own."""
    failed = GenerationError(f"generation failed: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed


@dataclass(frozen=True)
class EngineOptions:
    """The options of an engine on a command line.

    kind: "auto" is vLLM where it is installed, serves the model and has a GPU or a setting of its
        own (compile, prompt_lookup_tokens), transformers otherwise.
    dtype: "auto" (as stored), "bfloat16", "float16" or "float32"; "native" is made one of these.
    max_batch_size: requests that run at once; to an endpoint, in flight.
    max_batch_tokens: of transformers: rows of a batch times its longest prompt and output, at most.
    merge_adapters: of transformers: each adapter in a copy of the backbone.
    gpu_memory_utilization, tensor_parallel_size, max_model_len, compile, prompt_lookup_tokens: of
        vLLM, see VLLMSettings.
    constrain: hold plans, triples and condition triplets to their grammars.
    base_url, api_key: of an endpoint; None: `OPENAI_BASE_URL`, `OPENAI_API_KEY`.
    max_retries, timeout: of one request to an endpoint; the time-out in seconds.
    engines, ray_engine, engine_cpus: of Ray: how many, of which kind, and the CPUs of each (None:
        as many as each can have).
    ray_address: `HOST:PORT` of a cluster's head; None: `RAY_ADDRESS`, else this machine.
    logprobs_of: "model" gives log-probabilities under the model's own distribution, "sampled" under
        the one that tokens are drawn from, after temperature, top_p and constraint; a greedy
        request counts as one of temperature 1 there. Not for an endpoint, which has its own way.
    """

    kind: str = "auto"
    dtype: str = "native"
    max_batch_size: int = 64
    max_batch_tokens: int = 65536
    merge_adapters: bool = True
    gpu_memory_utilization: float = 0.9
    tensor_parallel_size: int = 1
    max_model_len: int | None = None
    compile: bool | None = None
    prompt_lookup_tokens: int = 0
    constrain: bool = False
    base_url: str | None = None
    api_key: str | None = None
    max_retries: int = 3
    timeout: float = 120.0
    engines: int = 1
    ray_engine: str = "auto"
    engine_cpus: float | None = None
    ray_address: str | None = None
    logprobs_of: LogprobsOf = "model"

    @property
    def computing_kind(self) -> str:
        """The kind of engine that computes: Ray runs others'."""
        return self.ray_engine if self.kind == "ray" else self.kind


@dataclass(frozen=True)
class Constraint:
    """A form that the whole output has; exactly one of the three is set.

    regex: in the syntax of Rust's `regex`: no look-around, no back-references.
    json_schema: a JSON schema as a string; white space between tokens is left out.
    grammar: context-free, in llguidance's dialect of Lark.
    """

    regex: str | None = None
    json_schema: str | None = None
    grammar: str | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.regex, self.json_schema, self.grammar) if value]
        if len(given) != 1:
            raise InvalidRequestError(
                "a constraint needs exactly one of regex, json_schema and grammar; this one has "
                f"{len(given)}"
            )


@dataclass(frozen=True)
class Sampling:
    """The settings by which tokens are chosen.

    max_new_tokens: most tokens generated (the end-of-sequence token counts as one).
    temperature: 0.0 is greedy; above it, tokens are drawn from the softmax of logits / temperature.
    top_p: the smallest set of tokens whose probabilities reach it is drawn from; 1.0 is all.
    stop: generation ends before the first of these strings, which is not part of the text.
    seed: with a temperature above 0, the same seed gives the same tokens whatever else is in
        the batch; None draws a fresh one.
    logprobs: also return the natural log-probability of each generated token, under the model's
        own distribution (before temperature, top_p and a constraint, though vLLM's are after the
        constraint), or under the one that the token was drawn from (`EngineOptions.logprobs_of`).
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: bool = False

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise InvalidRequestError(f"max_new_tokens is {self.max_new_tokens}; at least 1")
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise InvalidRequestError(
                f"temperature {self.temperature} and top_p {self.top_p}: "
                "temperature is 0 or more and top_p in (0, 1]"
            )
        if "" in self.stop:
            raise InvalidRequestError("an empty stop string would stop every text at once")

    def seeded(self) -> Sampling:
        """Return the settings with a seed where tokens are drawn: run again, they are the same."""
        if self.temperature > 0 and self.seed is None:
            return replace(self, seed=secrets.randbelow(SEEDS))
        return self


@dataclass(frozen=True)
class Request:
    """One generation.

    Exactly one of `prompt` (text, tokenised as in training: BOS, graph placeholder if the
    adapter has a graph encoder, text), `messages` (chat, through the model's chat template) and
    `input_ids` (complete ids as the component's processor made them) is set.
    adapter: name of a loaded component; None is the plain backbone.
    subgraphs: one per retrieval step, as triples or as ready sub-graphs; None or empty gives the
        learned token of an empty history. Only for an adapter with a graph encoder.
    graph_encode: False reads the text alone, without the graph's token and its placeholder (RAS
        Table 2, "No GraphEncode").
    soft_prompt: name of a loaded component whose soft prompt goes in front of what `adapter`
        reads, its keys and values made with the adapter on.
    constraint: a form that the output is held to; a text cut at max_new_tokens is its beginning.
    deadline_seconds: from the call; a request that takes longer ends with DeadlineExceededError.
    on_text: called in the caller's event loop with each piece of the text as it is written; the
        pieces together are the completion's text.
    made_from: the sample of a data contract whose prompt this is, without id and label, for
        whoever records calls; engines do not look at it.
    """

    prompt: str | None = None
    messages: tuple[Mapping[str, str], ...] | None = None
    input_ids: tuple[int, ...] | None = None
    adapter: str | None = None
    subgraphs: tuple[SubgraphInput, ...] | None = None
    graph_encode: bool = True
    sampling: Sampling = field(default_factory=Sampling)
    soft_prompt: str | None = None
    constraint: Constraint | None = None
    deadline_seconds: float | None = None
    on_text: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    made_from: Record | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.deadline_seconds is not None and self.deadline_seconds <= 0:
            raise InvalidRequestError(f"deadline_seconds is {self.deadline_seconds}; above 0")
        given = [
            name for name in ("prompt", "messages", "input_ids") if getattr(self, name) is not None
        ]
        if len(given) != 1:
            raise InvalidRequestError(
                "a request needs exactly one of prompt, messages and input_ids; "
                f"this one has {' and '.join(given) or 'none'}"
            )


@dataclass(frozen=True)
class Completion:
    """The outcome of a request.

    text: without the stop string and special tokens. token_ids: as generated, the
    end-of-sequence token included; empty from an engine that sends text alone.
    input_tokens: ids that the model read, the graph token included.
    finish_reason: "stop" (end of sequence or a stop string) or "length".
    """

    text: str
    token_ids: tuple[int, ...]
    input_tokens: int
    output_tokens: int
    finish_reason: str
    logprobs: list[float] | None = None


@dataclass(frozen=True)
class Health:
    """The state of an engine: working, or stuck.

    ok: it answers; an idle engine was asked for one token. reason: why not.
    running: requests that it has taken and not yet answered.
    seconds_since_progress: since its last token or batch; None before the first.
    restarts: how often its process was started anew.
    """

    ok: bool
    reason: str = ""
    running: int = 0
    seconds_since_progress: float | None = None
    restarts: int = 0


@runtime_checkable
class Engine(Protocol):
    """A language model behind a queue; safe to call from many coroutines at once."""

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion for each request, in the requests' order; raises EngineError."""
        ...

    async def health(self) -> Health:
        """Return whether the engine makes progress; never raises."""
        ...

    async def close(self) -> None:
        """Stop; requests still waiting end with EngineClosedError. May be called twice."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return the tokens of `text` without special tokens."""
        ...


class WrappedEngine:
    """An engine around another, whose answers it gives; a subclass sees to `generate`."""

    def __init__(self, engine: Engine) -> None:
        """Take the engine that answers."""
        self._engine = engine

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return the engine's own."""
        return await self._engine.generate(requests)

    async def health(self) -> Health:
        """Return the engine's own."""
        return await self._engine.health()

    async def close(self) -> None:
        """Close the engine."""
        await self._engine.close()

    def count_tokens(self, text: str) -> int:
        """Return the engine's own."""
        return self._engine.count_tokens(text)
