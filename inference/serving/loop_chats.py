"""A retrieval loop as a chat model: the steps as its reasoning, then the answer, then sources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from inference.engines.contract import DeadlineExceededError, Engine
from inference.loops.model import distinct_passages
from inference.loops.trace import Citation, Loop, Trace, step_json
from inference.retrieval.passages import Passage
from inference.serving.conversation import Asked, standalone_question
from inference.serving.event_stream import Following
from inference.serving.passages import CitedPassages
from models.formats.helpers import NOTHING
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord
from models.formats.triples import format_triple

# Chips under an answer: more of them tell a reader nothing.
MOST_SOURCES = 8


@dataclass(frozen=True)
class Chunk:
    """A piece of a streamed chat: OpenAI's `delta`, and fields of ours beside `choices`."""

    delta: Mapping[str, Any]
    beside: Mapping[str, Any] = field(default_factory=dict)


class LoopChat:
    """One answer of a loop while it is made; a listener of its trace."""

    def __init__(self, loop: Loop, engine: Engine, passages: CitedPassages, origin: str) -> None:
        """engine: rewrites a question that leans on earlier ones. origin: of citations' links."""
        self._loop = loop
        self._engine = engine
        self._passages = passages
        self._origin = origin
        self._following: Following[Chunk, Trace] = Following()
        self._known: list[dict[str, Any]] = []
        self._answer = ""
        self._held = ""
        self.trace: Trace | None = None

    async def run(self, asked: Asked) -> Trace:
        """Answer. Raises EngineError, also DeadlineExceededError."""
        trace = Trace(asked.question, evidence_only=asked.evidence_only, listener=self)
        self.trace = trace
        try:
            async with asyncio.timeout(asked.deadline_seconds):
                question = await standalone_question(
                    self._engine, asked.turns, asked.question, trace
                )
                trace.question = question
                await self._loop.answer(QuestionRecord("question", question, ""), trace)
        except TimeoutError:
            raise DeadlineExceededError(asked.deadline_seconds) from None
        return trace

    async def chunks(self, asked: Asked) -> AsyncGenerator[Chunk | None, None]:
        """Give what a stream sends, as it comes; None where nothing came for long."""
        async with aclosing(self._following.hear(self.run(asked))) as heard:
            async for chunk in heard:
                yield chunk
        assert self.trace is not None
        for chunk in self._rest(self.trace):
            yield chunk

    def begins(self, stage: str) -> None:
        """Send what the stages before added to the steps."""
        assert self.trace is not None
        for chunk in self._news(self.trace):
            self._following.tell(chunk)

    def writes(self, text: str) -> None:
        """Send a piece of the answer; white space around the whole is left out."""
        piece = self._held + text
        if not self._answer:
            piece = piece.lstrip()
        settled = piece.rstrip()
        if not self._answer and NOTHING.startswith(settled.lower()):
            settled = ""  # It may become the word by which a reader declines, which is no answer.
        self._held = piece[len(settled) :]
        if settled:
            self._answer += settled
            self._following.tell(Chunk({"content": settled}))

    def _news(self, trace: Trace) -> Iterator[Chunk]:
        for number, step in enumerate(trace.steps, start=1):
            now = step_json(step)
            before = self._known[number - 1] if number <= len(self._known) else {}
            if now == before:
                continue
            self._known[number - 1 : number] = [now]
            text = step_text(number, now, before)
            yield Chunk({"reasoning_content": text}, {"step": {"number": number, **now}})

    def _rest(self, trace: Trace) -> Iterator[Chunk]:
        """What is told once the loop has ended: its last step's end, the answer's, the sources."""
        yield from self._news(trace)
        content = self.content(trace)
        if content.startswith(self._answer) and len(content) > len(self._answer):
            yield Chunk({"content": content[len(self._answer) :]})
        if sources := self.annotations(trace):
            yield Chunk({"annotations": sources})

    def content(self, trace: Trace) -> str:
        """Return the answer, or the evidence where that is what was asked for."""
        return evidence_text(trace) if trace.evidence_only else trace.answer

    def annotations(self, trace: Trace) -> list[dict[str, Any]]:
        """Return the sources as `url_citation` annotations of the whole answer."""
        end = len(self.content(trace))
        return [
            {
                "type": "url_citation",
                "url_citation": {
                    "url": self._passages.url(self._origin, source.passage, source.sentence),
                    "title": source.title,
                    "start_index": 0,
                    "end_index": end,
                    "content": source.sentence,
                },
            }
            for source in sources_of(trace)
        ]

    def evidence(self, trace: Trace) -> dict[str, Any]:
        """Return the passages and triples of all steps, each once, in the order found."""
        found: dict[str, tuple[Passage, int]] = {}
        for number, step in enumerate(trace.steps, start=1):
            for passage in step.passages:
                found.setdefault(passage.id, (passage, number))
        passages = [
            {
                "id": passage.id,
                "title": passage.title,
                "text": passage.text,
                "url": self._passages.url(self._origin, passage.id),
                "step": number,
            }
            for passage, number in found.values()
        ]
        triples = {
            triple: {
                "subject": triple.subject,
                "predicate": triple.predicate,
                "object": triple.object,
                "passage": cited.passage if cited else None,
                "sentence": cited.sentence if cited else None,
            }
            for step in trace.steps
            for triple, cited in step.cited_triples
        }
        return {"passages": passages, "triples": list(triples.values())}


def sources_of(trace: Trace) -> list[Citation]:
    """Return what the answer stands on, a passage once, those of triples that name it first.

    Where no triple is cited, the passages that were found, without a sentence.
    """
    answer = trace.answer.casefold()
    naming: dict[str, Citation] = {}
    others: dict[str, Citation] = {}
    for step in trace.steps:
        for triple, cited in step.cited_triples:
            if cited is not None:
                ends = (triple.subject.casefold(), triple.object.casefold())
                kept = naming if answer and any(end in answer for end in ends) else others
                kept.setdefault(cited.passage, cited)
    sources = [*naming.values(), *(c for name, c in others.items() if name not in naming)]
    found = sources or [Citation(p.id, p.title, "") for p in distinct_passages(trace)]
    return found[:MOST_SOURCES]


def step_text(number: int, now: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Return what a step gained, in words: `before` is what was told of it, empty at first."""
    lines = []
    if not before:
        titles = ", ".join(passage["title"] for passage in now["passages"])
        lines += [f"{number}. {now['subquery']}", f"found: {titles or 'nothing'}"]
    told = before.get("triples", [])
    lines += [f"- {' | '.join(triple)}" for triple in now["triples"] if triple not in told]
    if now["decision"] and now["decision"] != before.get("decision"):
        lines.append(f"decided: {now['decision']}")
    return "".join(f"{line}\n" for line in lines)


def reasoning_text(trace: Trace) -> str:
    """Return all steps in words."""
    steps = enumerate(trace.steps, start=1)
    return "".join(step_text(number, step_json(step), {}) for number, step in steps)


def evidence_text(trace: Trace) -> str:
    """Return the distinct facts, then the distinct passages, for a model or person to read."""
    facts = [f"- {format_triple(triple)}" for triple in trace.graph]
    numbered = [
        f"[{number}] {passage_text(passage.title, passage.text)}"
        for number, passage in enumerate(distinct_passages(trace), start=1)
    ]
    return "\n\n".join(filter(None, ["\n".join(facts), *numbered]))
