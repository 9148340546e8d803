"""An engine that answers from a function, so that a loop's control flow is tested exactly."""

from collections.abc import Callable, Sequence

from inference.engines.contract import Completion, Health, Request, Sampling
from inference.loops.graph_reader import ReaderInput
from inference.retrieval.passages import Hit, Passage
from models.formats.history import History
from models.formats.prompts import answer_prompt, plan_prompt
from models.formats.records import Task

Script = Callable[[Request], str]


class ScriptedEngine:
    """Answers each request with `script(request)`; counts words as tokens."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion a request; an exception of the script passes through."""
        self.requests += requests
        return [self._complete(request) for request in requests]

    def _complete(self, request: Request) -> Completion:
        text = self.script(request)
        words = len(text.split())
        return Completion(text, (), self.count_tokens(request.prompt or ""), words, "stop")

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
