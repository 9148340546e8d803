"""One call of a teacher: what is asked, and the key of its content."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from inference.engines.contract import Request

# A second try of an answer that was of no use: other tokens, so not greedy.
SECOND_TEMPERATURE = 0.7
SECOND_SEED = 1


@dataclass(frozen=True)
class TeacherCall:
    """A request and what people and estimates need to know about it.

    request: as the engine takes it. version: of the prompt's format, in the key. stage, subject:
    what the call is for, such as "filter" and a question's id; not in the key. stand_in: an
    answer of the greatest length, from which an estimate goes on.
    """

    request: Request
    version: str
    stage: str
    subject: str
    stand_in: str


@dataclass(frozen=True)
class Answer:
    """What a teacher wrote, and what it took; `cost` in the currency of the given prices."""

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    cost: float = 0.0


class Asker(Protocol):
    """What answers calls: a teacher, or an estimate of what one would take."""

    async def ask(self, call: TeacherCall) -> Answer:
        """The answer to a call. Raises CallFailedError for this call, RunStoppedError for all."""
        ...


def call_key(model: str, call: TeacherCall) -> str:
    """sha256 of everything that decides an answer: model, prompt, sampling and format version.

    A deadline decides none. The endpoint's address is not in it: a served model may move.
    """
    asked = asdict(replace(call.request, deadline_seconds=None))
    content = {"model": model, "version": call.version, "request": asked}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def second_try(call: TeacherCall) -> TeacherCall:
    """The same call with another seed, at a temperature that lets the seed matter."""
    sampling = replace(
        call.request.sampling, temperature=SECOND_TEMPERATURE, seed=SECOND_SEED, top_p=1.0
    )
    return replace(call, request=replace(call.request, sampling=sampling))


def most_input_tokens(request: Request) -> int:
    """No fewer than the tokens that a model reads: a token has at least one byte.

    A chat's frame is allowed for with 16 tokens a message and 64 around them.
    """
    if request.input_ids is not None:
        return len(request.input_ids)
    texts = [request.prompt or "", *(m["content"] for m in request.messages or ())]
    return sum(len(text.encode("utf-8", "surrogatepass")) + 16 for text in texts) + 64


def request_text(request: Request) -> str:
    """The request's words, for an estimate of its tokens."""
    return "\n".join([request.prompt or "", *(m["content"] for m in request.messages or ())])
