"""Calls of a teacher: the prompts, and the key of a call's content."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from inference.engines.contract import Request
from models.formats.helpers import SubqueryInput
from models.formats.planning import one_line

# A second try of an answer that was of no use: other tokens, so not greedy.
SECOND_TEMPERATURE = 0.7
SECOND_SEED = 1
FILTER_VERSION = "filter/1"
SUBQUERY_VERSION = "subquery/1"
WRITER_VERSION = "subquery_writer/1"
DIRECT_VERSION = "direct/1"

FILTER_INSTRUCTION = """\
Identify which documents are HELPFUL to answer the question. Output only the document numbers \
separated by commas, or "none".

Examples:

Example 1 (Some documents are not helpful):

Question: What nationality was James Henry Miller's wife?

Supporting docs:

1. Margaret "Peggy" Seeger (born June 17, 1935) is an American folksinger. She is also well known \
in Britain, where she has lived for more than 30 years, and was married to the singer and \
songwriter Ewan MacColl until his death in 1989.
2. Seeger's father was Charles Seeger (1886–1979), an important folklorist and musicologist; her \
mother was Seeger's second wife, Ruth Porter Crawford.
3. James Henry Miller, better known by his stage name Ewan MacColl, was an English folk singer and \
songwriter.

Output: 1,3

Explanation: Only docs 1 and 3 are helpful – doc 1 shows Peggy Seeger (who is American) was \
married to Ewan MacColl, and doc 3 confirms Ewan MacColl is James Henry Miller. Doc 2 about \
Seeger's parents is not helpful.

Example 2 (All documents are helpful):

Question: The Oberoi family is part of a hotel company that has a head office in what city?

Supporting docs:

1. The Oberoi family is an Indian family that is famous for its involvement in hotels, namely \
through The Oberoi Group.
2. The Oberoi Group is a hotel company with its head office in Delhi.

Output: 1,2

Explanation: Both docs are helpful – doc 1 links the Oberoi family to The Oberoi Group, and doc 2 \
provides the head office location."""
"""RAS Fig. 7; "none" is ours, since a question may have no helpful document (App. C.1)."""

SUBQUERY_INSTRUCTION = """\
Given this main question and a supporting document, generate a simple sub-query (a question) that \
will help retrieve information from the document to answer the main question."""

SUBQUERY_EXAMPLES = """\
Main Question: The Pick Motor Company Limited is located in a town on which river?

Current Document (Pick Motor Company):
The Pick Motor Company Limited was a British motor vehicle manufacturer based in Stamford, \
Lincolnshire, and active between 1899 and 1925.

Sub-query: Where is The Pick Motor Company Limited located?

Main Question: The Pick Motor Company Limited is located in a town on which river?

Current Document (Stamford, Lincolnshire):
Stamford is a market town on the River Welland in Lincolnshire, England.

Previously generated sub-queries:
- Where is The Pick Motor Company Limited located?

Sub-query: Which river is Stamford located on?"""
"""The questions of RAS Fig. 10; the documents' wording is ours."""

SUBQUERY_RULES = """\
Write ONE clear and specific question that:
1. Can be answered using ONLY this document
2. Helps retrieve information needed for the main question
3. Is direct and focused on key information from this document
4. Names what it asks about and never speaks of "the document"
5. Does not contain the answer to the main question

Write only the question, in English, without any explanations or formatting."""
"""RAS Fig. 8 with two rules (4, 5) that its published outputs keep without saying so."""

DIRECT_EXAMPLES = """\
Question: Which country is the city of Osaka in?
Answer: Japan
Question: Are both the Nile and the Amazon rivers?
Answer: yes
Question: In what year did the Second World War end?
Answer: 1945"""


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
    """A teacher's text and what it took; `cost` in the currency of the given prices."""

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    cost: float = 0.0


class Asker(Protocol):
    """An answerer of calls: a teacher, or an estimate of what one would take."""

    async def ask(self, call: TeacherCall) -> Answer:
        """Return the answer to a call. Raises CallFailedError for this call, RunStoppedError for
        all.
        """
        ...


def call_key(model: str, call: TeacherCall) -> str:
    """Return the sha256 of what decides an answer: model, prompt, sampling and format version.

    A deadline decides none. The endpoint's address is not in it: a served model may move.
    """
    asked = asdict(replace(call.request, deadline_seconds=None))
    content = {"model": model, "version": call.version, "request": asked}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def second_try(call: TeacherCall) -> TeacherCall:
    """Return the same call with another seed, at a temperature that lets the seed matter."""
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
    """Return the request's words, for an estimate of its tokens."""
    return "\n".join([request.prompt or "", *(m["content"] for m in request.messages or ())])


def filter_prompt(question: str, documents: Sequence[str]) -> str:
    """Return which of the documents help to answer the question (RAS Fig. 7)."""
    numbered = "\n".join(f"{n}. {one_line(text)}" for n, text in enumerate(documents, start=1))
    return (
        f"{FILTER_INSTRUCTION}\n\nQuestion: {one_line(question)}\n\nSupporting docs:\n\n{numbered}"
        "\n\nOutput only the helpful document numbers separated by commas:"
    )


def subquery_prompt(given: SubqueryInput) -> str:
    """Return one sub-question for for each document, given those before (RAS Fig. 8)."""
    lines = [
        SUBQUERY_INSTRUCTION,
        f"Examples:\n\n{SUBQUERY_EXAMPLES}",
        f"Main Question: {one_line(given.question)}",
        f"Current Document ({one_line(given.title)}):\n{one_line(given.text)}",
    ]
    if given.earlier:
        asked = "\n".join(f"- {one_line(subquery)}" for subquery in given.earlier)
        lines.append(f"Previously generated sub-queries:\n{asked}")
    return "\n\n".join([*lines, SUBQUERY_RULES])


def direct_prompt(question: str) -> str:
    """Return the question without any context (RAS Algorithm 1, line 3); the answer ends its line.

    A base model that follows no instruction sees by examples that a short answer is wanted.
    """
    return f"{DIRECT_EXAMPLES}\nQuestion: {one_line(question)}\nAnswer:"
