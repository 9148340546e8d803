"""Texts in, triples out: a text-to-triples component without its prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from inference.engines.contract import Completion, Request
from inference.indexes.extraction import RequestMaker
from inference.retrieval.passages import Passage
from inference.serving.answers import ApiError, usage_of
from inference.serving.request_body import MOST_PROMPTS, shorter_deadline
from models.formats.triples import parse_triples


class TitledText(BaseModel):
    """A text whose title says what its pronouns mean."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str
    title: str = ""


class TriplesBody(BaseModel):
    """Of POST /v1/triples."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: str
    input: (
        str | Annotated[tuple[str | TitledText, ...], Field(min_length=1, max_length=MOST_PROMPTS)]
    )
    deadline_seconds: float | None = Field(None, gt=0)

    @property
    def texts(self) -> list[TitledText]:
        """Return the texts in order."""
        given = (self.input,) if isinstance(self.input, str) else self.input
        return [TitledText(text=each) if isinstance(each, str) else each for each in given]


def triples_requests_of(
    body: TriplesBody, makers: Mapping[str, RequestMaker], deadline_seconds: float | None
) -> tuple[list[int], list[Request]]:
    """Return the places of the texts that hold anything, and a request for each of them.

    makers: of the served text-to-triples components by name. deadline_seconds: the most that each
    request gets; the body may ask for less. Raises ApiError for another name.
    """
    make = makers.get(body.model)
    if make is None:
        known = ", ".join(makers) or "none"
        message = f"model: no text-to-triples component {body.model!r} is served; there is: {known}"
        raise ApiError(404, message, "model", "model_not_found")
    deadline = shorter_deadline(body.deadline_seconds, deadline_seconds)
    places, requests = [], []
    for place, each in enumerate(body.texts):
        if each.text.strip():
            request = make(Passage(str(place), each.title, each.text))
            places.append(place)
            requests.append(replace(request, adapter=body.model, deadline_seconds=deadline))
    return places, requests


def triples_answer(
    body: TriplesBody, places: Sequence[int], done: Sequence[Completion]
) -> dict[str, Any]:
    """Return the body of the answer: the distinct triples of each text, in order.

    malformed: pieces that the component wrote and that are no triple.
    """
    parsed = {place: parse_triples(one.text) for place, one in zip(places, done, strict=True)}
    data = []
    for place in range(len(body.texts)):
        found = parsed.get(place)
        triples = list(dict.fromkeys(found.triples)) if found else []
        data.append(
            {
                "object": "triples",
                "index": place,
                "triples": [[t.subject, t.predicate, t.object] for t in triples],
                "malformed": found.malformed if found else 0,
            }
        )
    return {"object": "list", "model": body.model, "data": data, "usage": usage_of(done)}
