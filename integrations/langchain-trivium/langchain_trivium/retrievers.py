"""The passages that a loop of a Trivium server finds for a question, as LangChain's documents."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.utils import secret_from_env
from pydantic import BaseModel, Field, SecretStr

from langchain_trivium.client import (
    API_KEY_VARIABLE,
    DEFAULT_BASE_URL,
    DEFAULT_MAX_RETRIES,
    DEFAULT_TIMEOUT,
    TriviumClient,
    TriviumError,
)

PATH = "chat/completions"


class FoundPassage(BaseModel):
    """A passage of the evidence; step: the number of the first step that found it."""

    id: str
    title: str = ""
    text: str
    url: str | None = None
    step: int | None = None


class ReadTriple(BaseModel):
    """A triple of the evidence; passage and sentence are None where no sentence states it."""

    subject: str
    predicate: str
    object: str
    passage: str | None = None
    sentence: str | None = None


class Evidence(BaseModel):
    """What a loop found, in the order found."""

    passages: list[FoundPassage]
    triples: list[ReadTriple] = []


class NamedPassage(BaseModel):
    """A passage as a step of the trace names it."""

    id: str


class Step(BaseModel):
    """A round of a loop: what it asked and which passages came."""

    subquery: str
    passages: list[NamedPassage] = []


class Trace(BaseModel):
    """A loop's steps; error: set when it failed on the way."""

    steps: list[Step] = []
    error: str | None = None


class EvidenceAnswer(BaseModel):
    """The part that is read of a chat completion with `evidence_only`."""

    evidence: Evidence
    trace: Trace = Trace()


class TriviumRetriever(BaseRetriever):
    """Asks a loop of a Trivium server for the evidence on a question, without its answer.

    Every passage that the loop found is a document, in the order found. Its metadata has `id`,
    `title`, `url`, the `steps` (from 1) and `subqueries` that found it, and the `triples` read
    from it: subject, predicate, object and the sentence that states it. What fails is raised as
    `TriviumError`.
    """

    base_url: str = DEFAULT_BASE_URL
    """The server's address with /v1."""
    model: str = "ras"
    """The loop to ask."""
    api_key: SecretStr | None = Field(
        default_factory=secret_from_env(API_KEY_VARIABLE, default=None)
    )
    """The server's key; TRIVIUM_API_KEY where it is not given."""
    k: int | None = Field(default=None, ge=1)
    """The most documents to return, the first found; all where it is None."""
    timeout: float = Field(default=DEFAULT_TIMEOUT, gt=0)
    """Seconds to wait for an answer."""
    max_retries: int = Field(default=DEFAULT_MAX_RETRIES, ge=0)
    """How often a question is repeated that the server is too busy for (429, 503)."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        most = self._most(k)
        answer = self._client().post(PATH, self._body(query), EvidenceAnswer)
        return self._documents(answer, most)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        most = self._most(k)
        answer = await self._client().apost(PATH, self._body(query), EvidenceAnswer)
        return self._documents(answer, most)

    def _most(self, k: int | None) -> int | None:
        if k is not None and k < 1:
            raise ValueError(f"k is {k}; give at least 1, or None for all")
        return self.k if k is None else k

    def _client(self) -> TriviumClient:
        key = self.api_key.get_secret_value() if self.api_key else None
        return TriviumClient(self.base_url, key, self.timeout, self.max_retries)

    def _body(self, question: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": question}]
        return {"model": self.model, "messages": messages, "evidence_only": True}

    def _documents(self, answer: EvidenceAnswer, most: int | None) -> list[Document]:
        if answer.trace.error:
            raise TriviumError(f"the loop {self.model} failed: {answer.trace.error}")
        first_of = {passage.id: passage for passage in reversed(answer.evidence.passages)}
        in_order = dict.fromkeys(passage.id for passage in answer.evidence.passages)
        return [_document(first_of[name], answer) for name in list(in_order)[:most]]


def _document(passage: FoundPassage, answer: EvidenceAnswer) -> Document:
    steps = {
        number: step.subquery
        for number, step in enumerate(answer.trace.steps, start=1)
        if any(each.id == passage.id for each in step.passages)
    }
    found_by = list(steps) or ([] if passage.step is None else [passage.step])
    return Document(
        id=passage.id,
        page_content=passage.text,
        metadata={
            "id": passage.id,
            "title": passage.title,
            "url": passage.url,
            "steps": found_by,
            "subqueries": list(steps.values()),
            "triples": [
                triple.model_dump(exclude={"passage"})
                for triple in answer.evidence.triples
                if triple.passage == passage.id
            ],
        },
    )
