"""An engine that answers from a function, so that a loop's control flow is tested exactly.

`WorldModel` in world_model.py is such a function that answers every kind of request.
"""

import asyncio
from collections.abc import Callable, Sequence

from inference.engines.contract import Completion, Health, Request, Sampling
from inference.loops.graph_reader import ReaderInput
from inference.retrieval.passages import Hit, Passage
from models.formats.history import History
from models.formats.prompts import answer_prompt, plan_prompt
from models.formats.records import Task

Script = Callable[[Request], str]


def prompt_text(request: Request, decode: Callable[[list[int]], str] | None = None) -> str:
    """What a request asks, as text: its prompt, its messages one after the other, or its ids.

    decode: turns ids into text; needed for requests that are ids.
    """
    if request.messages is not None:
        return "\n\n".join(message["content"] for message in request.messages)
    if request.input_ids is not None and decode is not None:
        return decode(list(request.input_ids))
    return request.prompt or ""


class ScriptedEngine:
    """Answers each request with `script(request)`; counts words as tokens.

    requests: all that came, in order. most_at_once: how many requests waited at the same time. As
    an engine promises, a text ends before the first of the request's stop strings.
    """

    def __init__(self, script: Script, gives_way: bool = False, gathers: int = 0) -> None:
        """gives_way: lets other coroutines bring their requests first, as a busy engine does.

        gathers: the first requests wait until so many have come, however long the threads take
        that the loop has between them.
        """
        self.script = script
        self.gives_way = gives_way
        self.gathers = gathers
        self._gathered = asyncio.Event()
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._waiting = 0

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion a request; an exception of the script passes through."""
        self.requests += requests
        self._waiting += len(requests)
        self.most_at_once = max(self.most_at_once, self._waiting)
        if self._waiting >= self.gathers:
            self._gathered.set()
        try:
            if not self._gathered.is_set():
                await asyncio.wait_for(self._gathered.wait(), timeout=60)
            completions = [self._complete(request) for request in requests]
            if self.gives_way:
                await asyncio.sleep(0)
            return completions
        finally:
            self._waiting -= len(requests)

    def _complete(self, request: Request) -> Completion:
        text = self.script(request)
        for stop in request.sampling.stop:
            text = text.split(stop)[0]
        read = self.count_tokens(prompt_text(request)) or len(request.input_ids or ())
        return Completion(text, (), read, len(text.split()), "stop")

    async def health(self) -> Health:
        """Always well."""
        return Health(True)

    async def close(self) -> None:
        """Nothing to stop."""

    def count_tokens(self, text: str) -> int:
        """Words."""
        return len(text.split())


def text_input(task: Task, history: History, sampling: Sampling) -> ReaderInput:
    """The prompt as plain text, for scripts that read it."""
    prompt = plan_prompt(history) if task == "plan" else answer_prompt(history)
    return ReaderInput(Request(prompt=prompt, sampling=sampling))


class TitleRetriever:
    """Finds the passages whose title stands in the query, in corpus order."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self.queries: list[str] = []

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Hits by title."""
        self.queries += queries
        found = [[p for p in self.passages if p.title in query][:top_k] for query in queries]
        return [[Hit(passage, 1.0) for passage in passages] for passages in found]
