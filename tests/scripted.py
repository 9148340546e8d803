"""A reader's plain prompts and a retriever by title, for loops with a scripted model."""

from collections.abc import Sequence

from inference.engines.contract import Request, Sampling
from inference.loops.model import ReaderInput
from inference.retrieval.passages import Hit, Passage
from models.formats.planning import History
from models.formats.prompts import answer_prompt, plan_prompt
from models.formats.records import Task


def text_input(task: Task, history: History, sampling: Sampling) -> ReaderInput:
    """Return the prompt as plain text, for scripts that read it."""
    prompt = plan_prompt(history) if task == "plan" else answer_prompt(history)
    return ReaderInput(Request(prompt=prompt, sampling=sampling))


class TitleRetriever:
    """Finds the passages whose title stands in the query, in corpus order."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self.queries: list[str] = []

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """Return the hits by title."""
        self.queries += queries
        found = [[p for p in self.passages if p.title in query][:top_k] for query in queries]
        return [[Hit(passage, 1.0) for passage in passages] for passages in found]
