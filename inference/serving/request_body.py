"""The body of a request in OpenAI's protocol, checked, as requests to an engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from inference.engines.contract import Constraint, Request, Sampling
from inference.engines.openai import MOST_STOP_STRINGS, TOO_LONG
from inference.serving.answers import ApiError
from inference.serving.conversation import Asked, is_background_task, turns_of
from models.formats.planning import one_line
from models.formats.triples import Triple

# They change no output.
PASSED_OVER = frozenset({"user", "safety_identifier", "prompt_cache_key"})
# Values that ask for what is done anyway.
NEUTRAL: Mapping[str, Any] = {
    "n": 1,
    "best_of": 1,
    "echo": False,
    "store": False,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "min_p": 0,
    "logit_bias": {},
    "tools": [],
}
TENSORS = "no tensors are read from the network; send text or ids, and subgraphs as triples"
REMEDIES: Mapping[str, str] = {
    "n": "send the prompt several times, each with a seed of its own",
    "best_of": "send the prompt several times and choose",
    "echo": "put the prompt in front of the answer yourself",
    "prompt_logprobs": "only generated tokens have log-probabilities; leave it out",
    "logit_bias": "hold the output by structured_outputs",
    "tools": "hold the output by structured_outputs",
}
MOST_PROMPTS = 1024
# A planner's context is some thousand tokens, and no question of a person is so long.
MOST_QUESTION_CHARACTERS = 4000
MOST_NEW_TOKENS = 2**31 - 1
# Below it, logits / temperature leave float32.
LEAST_TEMPERATURE = 0.01
# What a field takes, where the library's own message does not say it well.
SHAPES = {
    "model": "the name of a model, see GET /v1/models",
    "prompt": f"a text, token ids, or a list of 1 to {MOST_PROMPTS} of either",
    "messages": "a list of {role, content}; role is system, developer, user or assistant, content "
    "a text or a list of {type: text, text}",
    "stop": f"a text or a list of at most {MOST_STOP_STRINGS}, none of them empty",
    "subgraphs": "a list of graphs, each a list of [subject, predicate, object], no field empty",
    "structured_outputs": "{regex: text}, {json: schema} or {grammar: text}",
    "response_format": "{type: text}, {type: json_object} or {type: json_schema, "
    "json_schema: {name, schema}}",
    "logprobs": "0 in completions, true or false in chats: only the chosen tokens have one",
    "top_logprobs": "0: only the chosen tokens have a log-probability",
}

Text = Annotated[str, StringConstraints(min_length=1)]
# Bare, as triples are read from a text.
TripleField = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
TokenIds = Annotated[tuple[int, ...], Field(min_length=1)]
Texts = Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_PROMPTS)]
ListOfIds = Annotated[tuple[TokenIds, ...], Field(min_length=1, max_length=MOST_PROMPTS)]
NewTokens = Annotated[int, Field(ge=1, le=MOST_NEW_TOKENS)]


def check_other_fields(extra: Mapping[str, Any]) -> None:
    """Raise ApiError for the first field that could change the output, and is not known here.

    extra: those that the body's own model does not have. A null counts as left out.
    """
    for name, value in extra.items():
        if value is None or name in PASSED_OVER:
            continue
        if name in NEUTRAL and value == NEUTRAL[name]:
            continue
        raise ApiError(400, _refusal(name), name, "unsupported_parameter")


def _refusal(name: str) -> str:
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    remedy = TENSORS if "embed" in name else REMEDIES.get(name, "leave it out")
    if name in NEUTRAL:
        return f"{shown}: only {NEUTRAL[name]!r} is supported; {remedy}"
    return f"{shown}: not supported; {remedy}"


class Part(BaseModel):
    """A part of a body that has no fields but its own."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class StructuredOutputs(Part):
    """vLLM's field of this name: a form that the whole output has."""

    regex: str | None = None
    json_schema: str | dict[str, Any] | None = Field(None, alias="json")
    grammar: str | None = None


class NamedSchema(BaseModel):
    """A schema as OpenAI wraps it; its name, description and `strict` change nothing here."""

    schema_: dict[str, Any] = Field(alias="schema")


class ResponseFormat(Part):
    """OpenAI's field of this name."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class TextPart(Part):
    """A piece of a message's content."""

    type: Literal["text"]
    text: str


class Message(Part):
    """One turn of a chat; what a server said beside its content may come back with it."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | tuple[TextPart, ...]
    name: str | None = None
    reasoning_content: str | None = None
    annotations: list[Any] | None = None
    refusal: None = None

    @property
    def text(self) -> str:
        """Return the content in one piece."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)

    @property
    def as_read(self) -> dict[str, str]:
        """Return the message for a chat template, which knows no developer."""
        return {"role": "system" if self.role == "developer" else self.role, "content": self.text}


class StreamOptions(Part):
    """OpenAI's field of this name; `include_obfuscation` pads chunks, which is not done."""

    include_usage: bool = False
    include_obfuscation: bool = False


class Body(BaseModel):
    """The fields that completions and chats share; temperature and top_p as OpenAI's."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    model: str
    max_tokens: NewTokens | None = None
    max_completion_tokens: NewTokens | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    stop: Text | Annotated[tuple[Text, ...], Field(max_length=MOST_STOP_STRINGS)] | None = None
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    soft_prompt: str | None = None
    subgraphs: tuple[tuple[tuple[TripleField, TripleField, TripleField], ...], ...] | None = None
    structured_outputs: StructuredOutputs | None = None
    response_format: ResponseFormat | None = None
    deadline_seconds: float | None = Field(None, gt=0)
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def wants_usage_chunk(self) -> bool:
        """Return whether a stream ends with a chunk of usage alone."""
        return self.stream_options is not None and self.stream_options.include_usage

    def options(self, adapter: str | None, deadline_seconds: float | None) -> dict[str, Any]:
        """Return what every request of this body has beside its prompt. Raises ApiError."""
        graphs = self.subgraphs
        return {
            "adapter": adapter,
            "soft_prompt": self.soft_prompt,
            "subgraphs": graphs and tuple(tuple(Triple(*t) for t in graph) for graph in graphs),
            "sampling": self._sampling(),
            "constraint": self._constraint(),
            "deadline_seconds": shorter_deadline(self.deadline_seconds, deadline_seconds),
        }

    def _sampling(self) -> Sampling:
        temperature = 1.0 if self.temperature is None else self.temperature
        if 0 < temperature < LEAST_TEMPERATURE:
            message = f"temperature: 0, or at least {LEAST_TEMPERATURE}; 0 is greedy"
            raise ApiError(400, message, "temperature")
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop or ()
        if self.stream and self.wants_logprobs():
            message = "logprobs: not in a stream; leave one of the two out"
            raise ApiError(400, message, "logprobs", "unsupported_parameter")
        return Sampling(
            self._new_tokens(),
            temperature,
            1.0 if self.top_p is None else self.top_p,
            stop,
            self.seed,
            self.wants_logprobs(),
        )

    def _new_tokens(self) -> int:
        given = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(given) > 1:
            message = "max_tokens and max_completion_tokens differ; send one of them"
            raise ApiError(400, message, "max_tokens")
        return next(iter(given), None) or Sampling.max_new_tokens

    def wants_logprobs(self) -> bool:
        """Return whether the log-probabilities of the generated tokens are asked for."""
        raise NotImplementedError

    def requests(self, adapter: str | None, deadline_seconds: float | None) -> list[Request]:
        """Return a request for each prompt. Raises ApiError."""
        raise NotImplementedError

    def _constraint(self) -> Constraint | None:
        schema = _response_schema(self.response_format)
        held = self.structured_outputs
        if held is None:
            return None if schema is None else Constraint(json_schema=json.dumps(schema))
        given = held.json_schema
        as_text = json.dumps(given) if isinstance(given, dict) else given
        if schema is not None or sum(map(bool, (held.regex, as_text, held.grammar))) != 1:
            message = "structured_outputs: exactly one of regex, json and grammar, and no"
            raise ApiError(400, f"{message} response_format beside it", "structured_outputs")
        return Constraint(held.regex or None, as_text or None, held.grammar or None)


class CompletionBody(Body):
    """Of POST /v1/completions."""

    prompt: str | Texts | TokenIds | ListOfIds
    logprobs: int | None = Field(None, ge=0, le=0)

    def wants_logprobs(self) -> bool:
        """Return whether the log-probabilities of the generated tokens are asked for."""
        return self.logprobs is not None

    def requests(self, adapter: str | None, deadline_seconds: float | None) -> list[Request]:
        """Return a request for each prompt; all have the same graphs, soft prompt and seed."""
        options = self.options(adapter, deadline_seconds)
        prompt: Any = self.prompt
        one = isinstance(prompt, str) or isinstance(prompt[0], int)
        return [
            Request(**options, **{"prompt" if isinstance(each, str) else "input_ids": each})
            for each in ([prompt] if one else prompt)
        ]


class ChatBody(Body):
    """Of POST /v1/chat/completions."""

    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    metadata: dict[str, Any] | None = None
    evidence_only: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=0)

    def wants_logprobs(self) -> bool:
        """Return whether the log-probabilities of the generated tokens are asked for."""
        return bool(self.logprobs)

    def requests(self, adapter: str | None, deadline_seconds: float | None) -> list[Request]:
        """Return the one request of a chat."""
        if self.evidence_only and not self.is_background_task:
            message = "evidence_only: only a loop has evidence; leave it out"
            raise ApiError(400, message, "evidence_only", "unsupported_parameter")
        messages = tuple(each.as_read for each in self.messages)
        return [Request(messages=messages, **self.options(adapter, deadline_seconds))]

    @property
    def is_background_task(self) -> bool:
        """Return whether a client asks for itself, such as for a title: no question for a loop."""
        return bool((self.metadata or {}).get("task")) or is_background_task(self.messages[-1].text)

    def asked(self, deadline_seconds: float | None) -> Asked:
        """Return the question that the last message is to a loop. Raises ApiError.

        A loop has its own settings: how many tokens, and how they are chosen, is passed over.
        """
        for name in ("soft_prompt", "subgraphs", "structured_outputs", "stop"):
            if getattr(self, name) is not None:
                message = f"{name}: not for a loop, which writes by its own settings; leave it out"
                raise ApiError(400, message, name, "unsupported_parameter")
        if self.wants_logprobs() or _response_schema(self.response_format) is not None:
            name = "logprobs" if self.wants_logprobs() else "response_format"
            message = f"{name}: not for a loop; leave it out"
            raise ApiError(400, message, name, "unsupported_parameter")
        last = self.messages[-1]
        question = one_line(last.text)
        if last.role != "user" or not question:
            message = "messages: the last one is the question; give it the role user and a text"
            raise ApiError(400, message, "messages", "invalid_value")
        if len(question) > MOST_QUESTION_CHARACTERS:
            message = f"messages: the question has {len(question)} characters; a loop takes "
            message += f"{MOST_QUESTION_CHARACTERS}. Ask in fewer words, or put texts in the corpus"
            raise ApiError(400, message, "messages", TOO_LONG)
        turns = turns_of([(each.role, each.text) for each in self.messages[:-1]])
        deadline = shorter_deadline(self.deadline_seconds, deadline_seconds)
        return Asked(question, tuple(turns), bool(self.evidence_only), deadline)


def shorter_deadline(*deadlines: float | None) -> float | None:
    """Return the shortest of the deadlines that are given, in seconds; None where none is."""
    return min(filter(None, deadlines), default=None)


BodyT = TypeVar("BodyT", bound=BaseModel)


def parse_body(kind: type[BodyT], data: bytes) -> BodyT:
    """Read a body. Raises ApiError (400) that names the first field that is wrong."""
    try:
        body = kind.model_validate_json(data)
    except ValidationError as error:
        raise _wrong_field(error) from None
    check_other_fields(body.model_extra or {})
    return body


def _wrong_field(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is not JSON: {first['msg']}", code="invalid_json")
    if not first["loc"]:
        return ApiError(400, "the body is no JSON object; send {...}", code="invalid_json")
    name = str(first["loc"][0])
    place = name + "".join(f"[{part}]" for part in first["loc"][1:] if isinstance(part, int))
    said = SHAPES.get(name) or first["msg"].replace("Input should be", "must be")
    return ApiError(400, f"{place}: {said}", name, "invalid_value")


def _response_schema(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "object"}
    if wanted.json_schema is None:
        message = f"response_format: {SHAPES['response_format']}"
        raise ApiError(400, message, "response_format")
    return wanted.json_schema.schema_
