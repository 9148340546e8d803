"""The baseline that answers from the model's own knowledge."""

from inference.loops.graph_reader import GraphReader
from inference.loops.trace import Trace
from models.formats.history import History
from models.formats.records import QuestionRecord


class NoRetrievalLoop:
    """One call a question, nothing retrieved (RAS eq. 7)."""

    def __init__(self, reader: GraphReader) -> None:
        self.reader = reader

    async def answer(self, record: QuestionRecord) -> Trace:
        """Answer at once."""
        trace = Trace(record.question)
        trace.answer = await self.reader.answer(History(record.question, no_retrieval=True), trace)
        return trace
