"""What every retrieval loop is: a question in, a trace out."""

from typing import Protocol

from inference.loops.trace import Trace
from models.formats.records import QuestionRecord


class Loop(Protocol):
    """Answers questions; one instance serves many coroutines at once."""

    async def answer(self, record: QuestionRecord) -> Trace:
        """Answer one question; raises EngineError when the model cannot be reached.

        Only the question is read, and `context` by loops over given passages; never the answer
        or the annotations.
        """
        ...
